// The levels of this ladder, one function per .cu file.
#pragma once

#include <vector>

#include "../level.hpp"

namespace levels {

std::vector<Level> thread_per_block_levels();
std::vector<Level> warp_per_block_levels();
std::vector<Level> four_lanes_levels();
std::vector<Level> two_lanes_nvfp4_levels();
std::vector<Level> two_hop_levels();  // exactly two, in order

}  // namespace levels
