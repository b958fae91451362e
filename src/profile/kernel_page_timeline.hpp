// The part of the kernel page that shows the warps of one block side by side: when each runs, and
// who waits for what.
#pragma once

#include <string>

#include "profile/kernel_profile.hpp"

namespace microscale {

/// A drawing with a row for each warp, and the longest waits in words; empty without a timeline.
std::string warp_timeline(const KernelProfile& profile);

}  // namespace microscale
