// Findings for people: those of one cause together, each with its line first, what it is in CUDA's
// words, and what mends it.
#pragma once

#include <string>
#include <vector>

#include "microscale/emulator.hpp"

namespace microscale {

/// One line for each finding, the worst first; behind those of one cause two more, "in CUDA" and
/// "cure".
std::vector<std::string> finding_lines(const std::vector<emulator::Finding>& findings);

}  // namespace microscale
