// The maps found by experiment: mma.sync is run on operands that are zero but for one element, and
// on scales that are 1 but for one byte, as one would on a GPU. K is summed away, so of A and B
// only the agreement of their K can be seen: the K of one is named by the map of the other.
#pragma once

#include <vector>

#include "emulator/tensor/mma.hpp"

namespace microscale::emulator::tensor {

/// Where what a lane holds belongs; row -1: it has no effect.
struct Probed {
  Slot slot;
  Coordinate at{-1, -1};
  bool operator==(const Probed&) const = default;
};

/// Lane by lane, then register by register, item by item.
std::vector<Probed> probe_a(const MmaShape& shape, Generation generation);  // row, k
std::vector<Probed> probe_b(const MmaShape& shape, Generation generation);  // k, column
std::vector<Probed> probe_d(const MmaShape& shape, Generation generation);  // row, column

/// slot.item is the byte; at: row and chunk of A's scales, chunk and column of B's.
std::vector<Probed> probe_a_scales(const MmaShape& shape, ScaleSelector select);
std::vector<Probed> probe_b_scales(const MmaShape& shape, ScaleSelector select);

/// The same by the formulas of mma_fragments.hpp and scale_lanes.hpp.
std::vector<Probed> map_a(const MmaShape& shape);
std::vector<Probed> map_b(const MmaShape& shape);
std::vector<Probed> map_d(const MmaShape& shape);
std::vector<Probed> map_a_scales(const MmaShape& shape, ScaleSelector select);
std::vector<Probed> map_b_scales(const MmaShape& shape, ScaleSelector select);

/// The code of 1, in its container.
std::uint32_t one_in_container(Kind kind, Operand type);

}  // namespace microscale::emulator::tensor
