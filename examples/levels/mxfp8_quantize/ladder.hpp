// The levels of this ladder. All but row_major_level() write scales in 128x4 tiles.
#pragma once

#include <vector>

#include "../level.hpp"

namespace levels {

Level loop_over_k_level();
Level grid_split_over_k_level();
std::vector<Level> cp_async_stages_levels();
Level bulk_load_level();
std::vector<Level> word_scales_levels();
Level row_major_level();
Level repack_level();  // what comes after it

}  // namespace levels
