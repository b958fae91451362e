// What a backend offers for attention: the seam between ops/attention and its kernels. The
// operation cuts queries and keys into tiles, says which keys each row sees, and merges; kernels
// never allocate, log or throw.
#pragma once

#include <cstdint>
#include <span>

#include "seam/matmul_kernels.hpp"
#include "microscale/attention.hpp"

namespace microscale {

/// Keys at positions [begin, begin + count) of a sequence, whose K and whose V are evenly strided
/// rows each: of a dense or block tensor, of one page, of a piece of the BF16 copies. FP8 without
/// block scales has E8M0 scales of 1.
struct AttentionKeys {
  std::int64_t begin = 0, count = 0;
  MatmulRows k{}, v{};
  double k_factor = 1, v_factor = 1;  // global scales
};

/// A row is one query of one query head.
struct AttentionRow {
  std::int64_t begin = 0, end = 0;  // positions of the keys it sees
  double shift = 0;                 // added to its scores before the softcap
};

/// Rows of one sequence and kv head over a range of its keys.
struct AttentionTile {
  const double* q = nullptr;  // row r at q + r * d: exact values, every factor inside but `scale`
  std::int64_t rows = 0, d = 0;
  const AttentionRow* row = nullptr;      // one per row
  std::span<const AttentionKeys> keys{};  // positions ascend without gaps
  double scale = 1;
  double softcap = 0;  // 0: none
  ProbabilityRule probabilities = ProbabilityRule::exact;
  Format probability_format = Format::nvfp4;  // two_level: nvfp4 or mxfp4,
  bool two_term = false;                      // in two terms
  // Results, one or d per row: the largest score (-infinity if none is seen), the sum of
  // e^(score - largest), and that sum with v. A score of -infinity weighs nothing.
  double *largest = nullptr, *sum = nullptr, *output = nullptr;
  void* workspace = nullptr;  // workspace_bytes(), at a multiple of 64; this call's alone
};

/// What a call needs a kernel to have.
struct AttentionNeeds {
  MatmulRows k{}, v{};  // type or format; dense rows any kernel takes
  std::int64_t d = 0;
  ProbabilityRule probabilities = ProbabilityRule::exact;
};

/// The most roundings to FP32 that one term of a score, or of the result, goes through. Where FP4
/// keys are multiplied as integers also, in the same unit of 2^-24: `query`, what an element of q
/// is off, relative to the largest of its row; `weight`, what a probability times a scale of V is
/// off, relative to the largest such product of the 32 keys at [32 b, 32 b + 32) and that block.
struct AttentionRoundings {
  std::int64_t score = 0, output = 0, query = 0, weight = 0;
};

struct AttentionKernels {
  bool (*supports)(const AttentionNeeds&);
  std::int64_t tile_rows;  // the most rows of a tile
  /// Of a tile of `rows` rows over positions [0, keys) at most.
  std::int64_t (*workspace_bytes)(std::int64_t rows, std::int64_t keys, std::int64_t d);
  /// A row's results depend on its own q and keys, and on the tile's range of keys, alone: not on
  /// the other rows, and not on how the range is cut into AttentionKeys.
  void (*attend)(const AttentionTile&);
  AttentionRoundings (*roundings)(std::int64_t keys, std::int64_t d);
};

}  // namespace microscale
