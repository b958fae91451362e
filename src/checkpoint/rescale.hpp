// NVFP4 blocks under another global scale: the block scales take the ratio up where E4M3 can, and
// only where it cannot are codes chosen anew, nearest to what the block stood for.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "report/model_report.hpp"

namespace microscale {

struct RescaleCounts {
  std::int64_t blocks = 0;          // looked at
  std::int64_t scales_changed = 0;  // scale bytes
  std::int64_t codes_changed = 0;   // element codes
  std::int64_t blocks_inexact = 0;  // that stand for other values than before
  double squared_change = 0;        // of the values, against squared_before
  double squared_before = 0;

  void add(const RescaleCounts& other);
};

/// The scale byte times `ratio`, if E4M3 has exactly that; else nothing stands: -1. A zero stays
/// zero.
int exact_scale(std::uint8_t scale, double ratio);

/// Of blocks with these scale bytes, how many `ratio` forces to change their values.
std::uint64_t inexact_blocks(const CodeHistogram& scales, double ratio);

/// `codes`: packed E2M1, 8 bytes a block, blocks side by side; `scales`: a byte a block. Both are
/// rewritten for a global scale that is 1 / `ratio` times as large. Scales are not NaN.
RescaleCounts rescale_blocks(std::span<std::uint8_t> codes, std::span<std::uint8_t> scales,
                             double ratio);

}  // namespace microscale
