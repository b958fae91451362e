// What distinguishes the kernels of attention by block-scaled matrix instructions.
#pragma once

#include "cuda/attention/block_scaled/keys.cuh"
#include "cuda/attention/block_scaled/weights.cuh"

namespace microscale::cuda::block_attention {

/// How probabilities are multiplied.
enum class Values {
  tokens,     // two-level codes, with V's blocks along the tokens
  two_level,  // two-level codes, converted to FP16 as V is, whose blocks run along d
  exact,      // FP16, with V's blocks along d
};

/// QTerms, PTerms: of q and of codes of probabilities. Rows: sixteens of a warp. Paged: K and V are
/// in pages that a table names.
template <class Pair, int D_, int QTerms_, Values V_, int PTerms_, int Rows_, bool Paged_ = false>
struct Config {
  using Keys = Pair;
  static constexpr int D = D_, QTerms = QTerms_, PTerms = PTerms_, Rows = Rows_;
  static constexpr Values V = V_;
  static constexpr bool along_tokens = V == Values::tokens, Paged = Paged_;
  static_assert(!Paged || !along_tokens, "V's blocks run along d in a cache");
  static_assert(!along_tokens || Rows == 1, "codes of probabilities of a whole tile are kept");
  static constexpr int threads = threads_of(D, along_tokens), block_rows = threads / 2 * Rows;
  static_assert(block_rows == block_rows_of(D, QTerms, along_tokens), "as the host has it");
  static constexpr int eights = along_tokens ? 8 : 4;  // of keys that are scored at a time
  static constexpr float most = V == Values::exact ? 15.0f : log2_2688;
};

}  // namespace microscale::cuda::block_attention
