// The levels of this ladder: args.codes is the transposed matrix, cols x rows FP32.
#pragma once

#include <vector>

#include "../level.hpp"

namespace levels {

std::vector<Level> transpose_levels();

}  // namespace levels
