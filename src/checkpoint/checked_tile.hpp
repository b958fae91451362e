// Reads tiles of weights that are to be quantized, and looks for what cannot be.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "checkpoint/schedule.hpp"
#include "checkpoint/tile.hpp"
#include "checkpoint/weight_scan.hpp"

namespace microscale {

/// The tile that a unit of Kind::measure or quantize is about.
Tile tile_of(const ModelPlan& plan, const Unit& unit);

/// Reads it to the front of `out`. False, and a note in `scan`, where it holds an element that
/// cannot be quantized. Of a unit of Kind::measure the scan learns the largest magnitude, and `out`
/// holds nothing afterwards: a piece of the tile after the other went through its front. From many
/// threads at once, each with its own `out` and `scratch`. Throws Error.
bool read_checked_tile(const ModelPlan& plan, const Unit& unit, const Tile& tile,
                       std::span<std::uint8_t> out, std::vector<std::uint8_t>& scratch,
                       WeightScan& scan);

}  // namespace microscale
