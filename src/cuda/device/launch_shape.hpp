// What a grid of thread blocks looks like, and what one block may have.
#pragma once

#include "formats/integers.hpp"  // grids are counted with it

namespace microscale::cuda {

/// Of shared memory: what a thread block of sm_90 may have.
inline constexpr int most_shared_bytes = 232448;

/// Threads of a block, where nothing asks for another number.
inline constexpr int threads_per_block = 256;

struct Launch {
  unsigned grid_x, grid_y, grid_z;
  unsigned threads;  // of a block
  int column_shift;  // of quantizers: log2 of the threads side by side in a row
};

}  // namespace microscale::cuda
