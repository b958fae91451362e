// The levels of this ladder: args.codes is the transposed matrix, cols x rows FP32.
#pragma once

#include <vector>

#include "../level.hpp"

namespace levels {

std::vector<Level> transpose_levels();
Level copy_level();  // rows * cols a multiple of 4; to compare with

}  // namespace levels
