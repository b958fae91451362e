// Level 1's questions to one matrix instruction, and its answers.
#pragma once

#include <array>
#include <vector>

#include "problem.hpp"

namespace levels {

/// Where an element of a, or of b, is said to be: which lane, register and byte.
struct Place {
  int lane, reg, byte;
};
Place place_of_a(int row, int k);
Place place_of_b(int column, int k);

/// Identity matrices: a has a 1 in row r at k = r + a_shift (mod 32), b one in column c at k = c +
/// b_shift. The operands of all 32 x 32 pairs of shifts, a_shift first.
std::vector<std::uint32_t> identity_probes();
/// How many of the results differ from 1 where the ones meet and 0 elsewhere.
int wrong_results(const std::vector<float>& d);

/// All ones under scales of 1, but that in turn one lane's register of a's scales (probes 0 to 31),
/// then of b's (32 to 63) has 2 as its scale `byte`.
std::vector<std::uint32_t> scale_probes(int byte);
/// The row, or column, that each lane doubles; -1: none, -2: more than one.
struct ScaleLanes {
  std::array<int, 32> row, column;
};
ScaleLanes scale_lanes(const std::vector<float>& d);

}  // namespace levels
