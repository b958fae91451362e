// MXFP4 as NVFP4: the same codes under scales of the other kind, where these reach.
#pragma once

#include <cstdint>
#include <span>

#include "report/error_metrics.hpp"

namespace microscale {

/// The exponent of the largest scale among the blocks that hold a value other than zero; nothing to
/// go by: INT_MIN. `scales`: E8M0, none NaN, of 32 codes each.
int largest_exponent(std::span<const std::uint8_t> codes, std::span<const std::uint8_t> scales);

/// The largest magnitude for which NVFP4's global scale becomes the power of two with which E4M3's
/// largest one, 2^8, is 2^exponent: 18 powers of two from there down are scales.
float amax_for_exponent(int exponent);

struct CastBlocks {
  std::int64_t blocks = 0;    // of sixteen
  std::int64_t searched = 0;  // that stand for other values than before
  ErrorSums error;            // of these alone
};

/// Codes stay where the scale fits, or move by powers of two where E2M1 allows; other blocks are
/// quantized by search. `scales`: E8M0 of 32 codes each; `to`: E4M3 of 16 each; `global_scale`: the
/// decode multiplier, a power of two.
CastBlocks cast_to_nvfp4(std::span<std::uint8_t> codes, std::span<const std::uint8_t> scales,
                         float global_scale, std::span<std::uint8_t> to);

}  // namespace microscale
