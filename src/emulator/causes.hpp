// Findings in the order in which one looks at them, those of one cause together: a missing barrier
// is a race for each line that touches the array.
#pragma once

#include <cstddef>
#include <vector>

#include "microscale/emulator.hpp"

namespace microscale::emulator {

/// Numbers of findings: a group for each cause, the worst first, and of a group the one that says
/// most. Findings about the order of accesses, or unwritten bytes, of one array have one cause; of
/// other kinds those at one line.
std::vector<std::vector<std::size_t>> by_cause(const std::vector<Finding>& findings);

}  // namespace microscale::emulator
