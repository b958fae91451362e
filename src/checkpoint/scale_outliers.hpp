// E8M0 scales that are far from all of their neighbours. A bit that was turned over in such a byte
// multiplies one block by up to 2^64; without the original only the blocks around it tell.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "microscale/format.hpp"

namespace microscale {

/// Weights of neighbouring blocks differ by a few powers of two; what was trained to almost nothing
/// lies in whole rows or columns. So many powers between a block and all around it are damage, or
/// one weight that is a hundred thousand times as large as the others.
inline constexpr int outlier_powers = 20;

/// Calls `found` with the index of each scale of a run of blocks, `first` of which is the first,
/// that differs by outlier_powers or more from the scales of all blocks beside it (in its row, and
/// in the rows before and after where the run has them), all to the same side. Blocks whose codes
/// are all 0 count neither way; with fewer than two others around it nothing is told.
void find_scale_outliers(std::span<const std::uint8_t> scales, std::span<const std::uint8_t> codes,
                         const FormatInfo& format, std::int64_t first, std::int64_t blocks_per_row,
                         const std::function<void(std::size_t index, bool larger)>& found);

}  // namespace microscale
