// Attention: o = softmax(scale * q k^T + mask) v, over dense or block-scaled operands and over a
// cache of 4- or 8-bit keys and values.
//
// q [batch, q_len, q_heads, d]; k, v [batch, kv_len, kv_heads, d]; d a multiple of 32 up to 256;
// q_heads a multiple of kv_heads: query head h reads kv head h / (q_heads / kv_heads). Of sequence
// b, query i stands at position p = kv_len - q_len + i (bottom-right), and sees key j if
//
//   (not causal or j <= p) and (window = 0 or j > p - window)
//
//   s_j = scale * q . k_j,  with softcap c: c * tanh(s_j / c)
//   log_sum_exp = ln(sum of e^s_j over keys seen [+ e^sink])
//   o = sum of e^(s_j - log_sum_exp) v_j
//
// Where nothing is seen and there is no sink, o is 0 and log_sum_exp -infinity; a score of
// -infinity weighs nothing. Keys not seen have no influence, whatever their memory holds, but for
// one case: on Backend::cuda NaN or infinity in a v that some queries see and others do not may
// make the others' results NaN (0 times it is NaN). NaN and infinity in those seen pass through as
// IEEE has it; where dense operands are quantized, an infinity saturates as quantizers have it.
//
// The result is FP32, rounded to nearest even to the output's type. The order of sums depends only
// on the shapes, `splits` and the backend: the same call gives the same bytes at any number of
// threads, and so do paged and contiguous caches of the same codes. docs/attention.md says what
// each backend takes, how it sums, and its error bound.
//
// The caller owns all memory. Only the output and log_sum_exp are written; they must not overlap an
// operand. Pointers beside views (sinks, offsets, log_sum_exp) lie where the views do. Functions
// throw Error; a call that is refused has written nothing. Backend::cuda: addresses are multiples
// of 16 bytes; lengths, offsets and page tables are read when the work runs, in Context::workspace.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>

#include "microscale/context.hpp"
#include "microscale/heads.hpp"
#include "microscale/kv_cache.hpp"

namespace microscale {

using AttentionInput = std::variant<HeadsView, BlockHeadsView>;

/// What a call may round on the way. Operands that are already block-scaled are always decoded
/// exactly; the modes say what becomes of those that are dense, and of the probabilities.
enum class AttentionAccuracy : std::uint8_t {
  /// Nothing is quantized. Sums are FP32 or wider; operands keep at least the 11 significant bits
  /// of FP16, probabilities the 8 of BF16. (AVX-512 and FP4 keys: 15 bits of the largest of a row
  /// of q, and of 32 probabilities times V's scales; docs/attention.md.)
  storage,
  /// q (and k) become FP4 and both products go through 4-bit probabilities: the numbers of one
  /// block-scaled matrix instruction for each product.
  one_term,
  /// q and the probabilities are the sum of two FP4 numbers, the second the rounded rest of the
  /// first: two instructions each, k and v stay in 4 bits.
  two_term,
};

/// The probabilities p = e^(s - maximum of the row), in [0, 1], of a mode that quantizes.
enum class ProbabilityRule : std::uint8_t {
  of_mode,    ///< storage: exact; else two_level, or fp8 where v has 8-bit codes
  exact,      ///< as in `storage`
  two_level,  ///< p * 448 * 6 in NVFP4: blocks of 16 keys, E4M3 scale of the block's largest / 6,
              ///< codes of p divided by the rounded scale. Of an MXFP4 v: p in MXFP4, blocks of 32
  fp8,        ///< E4M3 of p * 448; one term
};

/// What the FP4 modes make of dense operands; docs/attention.md has each step.
struct AttentionNumerics {
  AttentionAccuracy accuracy = AttentionAccuracy::storage;
  ProbabilityRule probabilities = ProbabilityRule::of_mode;  ///< storage: of_mode or exact
  /// nvfp4, mxfp4 or mxfp8_e4m3, of a dense q, k and v. A dense q with k in blocks or in a cache
  /// takes k's format instead (KvFormat::fp8: mxfp8_e4m3), but MXFP8 beside an MXFP4 k where this
  /// is mxfp8_e4m3. 8-bit codes have one term in every mode.
  Format format = Format::nvfp4;
  /// Blocks of a dense v: along d, or along the tokens, as block-scaled instructions want them: 16
  /// or 32 keys from a multiple of that on, the last block filled up with zeros. Keys that a query
  /// does not see then take part in the scale of those it does. Nothing where no v is quantized.
  bool v_along_tokens = false;

  bool operator==(const AttentionNumerics&) const = default;
};

struct AttentionOptions {
  AttentionInput q{};
  AttentionInput k{}, v{};         ///< either both of these (formats may differ),
  std::optional<KvCache> cache{};  ///< or this: kv_len of sequence b is cache.lengths[b]
  MutableHeadsView output{};       ///< of q's shape; FP32, BF16, FP16
  float* log_sum_exp = nullptr;    ///< [batch, q_len, q_heads] packed, natural logarithm; null: not

  std::optional<float> scale{};  ///< finite; absent: 1 / sqrt(d)
  bool causal = false;
  std::int64_t window = 0;       ///< keys a query sees, its own position counted; 0: all
  float softcap = 0.0f;          ///< 0: none; else finite, > 0
  const float* sinks = nullptr;  ///< [q_heads] logits, added to the sum as they are; null: none

  /// Variable lengths: q is [1, all queries, q_heads, d], and sequence b has its tokens
  /// [q_offsets[b], q_offsets[b + 1]); likewise k and v. `sequences` + 1 integers each, not
  /// decreasing, within the tensor (a GPU takes the part that is within). Lengths may be 0. With
  /// q_offsets, log_sum_exp is [all queries, q_heads]; queries of no sequence are not written.
  const std::int32_t* q_offsets = nullptr;
  const std::int32_t* kv_offsets = nullptr;  ///< with k and v; a cache has its own lengths
  std::int64_t sequences = 0;                ///< with offsets
  /// Upper bounds of the lengths, for a GPU's launch; 0: of q's tokens, and of k's tokens or what a
  /// row of the page table holds. A longer sequence is an error on a host, cut off on a GPU.
  std::int64_t max_q_len = 0, max_kv_len = 0;

  AttentionNumerics numerics{};
  /// Parts into which the keys of a sequence are cut; their results are merged in order. 0: as many
  /// as suit the shapes, 1: none. At most 256.
  int splits = 0;
};
void attention(const AttentionOptions& options, const Context& context = {});

/// Returns the bytes of Context::workspace that a call with these options needs; 0 on the CPU. It
/// depends on shapes, formats and the backend, not on what memory holds. Throws Error.
std::int64_t attention_workspace_bytes(const AttentionOptions& options, const Context& context);

}  // namespace microscale
