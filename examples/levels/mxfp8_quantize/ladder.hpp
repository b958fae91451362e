// The levels of this ladder. All but the last two write scales in 128x4 tiles.
#pragma once

#include <vector>

#include "../level.hpp"

namespace levels {

Level loop_over_k_level();
Level grid_split_over_k_level();
Level cp_async_stages_level();
Level bulk_load_level();
std::vector<Level> word_scales_levels();
Level row_major_level();  // and then:
Level repack_level();

}  // namespace levels
