// Joins what a launch counted with the text it ran: classes, source places, special registers.
#pragma once

#include <string>

#include "microscale/emulator.hpp"
#include "profile/kernel_profile.hpp"

namespace microscale::emulator {

/// `report` must have statistics and come from `kernel` of `ptx`. Files have names and no lines
/// yet. Throws Error as Module does.
KernelProfile profile_of(const std::string& ptx, const std::string& kernel, LaunchReport report);

}  // namespace microscale::emulator
