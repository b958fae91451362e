// Into how many parts the keys of each item of attention are cut, each for a thread block, whose
// sums are merged.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cuda/quantize/geometry.hpp"

namespace microscale::cuda {

/// What is counted in pieces, as many keys as a kernel computes at once.
struct SplitCosts {
  double block;  // what a block takes besides its pieces
  double merge;  // what merging takes
};

/// The number of parts, 1 to `most`, with the least time: that of all rounds of blocks, and of
/// merging. `slots`: blocks that the device holds at once; `pieces`: of an item, at most;
/// `sharing`: warps of a block that have pieces of their own, or 1.
inline int best_splits(std::int64_t items, std::int64_t slots, std::int64_t pieces, int sharing,
                       std::int64_t most, const SplitCosts& costs) {
  double least = 0;
  std::int64_t best = 1;
  for (std::int64_t splits = 1; splits <= most; ++splits) {
    const double rounds = static_cast<double>(ceil_div(items * splits, slots)),
                 own = static_cast<double>(ceil_div(pieces, splits * sharing)),
                 time = rounds * (own + costs.block) + (splits > 1 ? costs.merge : 0);
    if (splits == 1 || time < least) least = time, best = splits;
  }
  return static_cast<int>(best);
}

}  // namespace microscale::cuda
