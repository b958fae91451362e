// A kernel's profile as one HTML page that needs nothing else: source and PTX beside their figures,
// the pattern of each access drawn, one warp to step through.
#pragma once

#include <string>

#include "profile/kernel_profile.hpp"

namespace microscale {

/// For desktop and phone, light and dark. ASCII only. Without scripts everything but the stepping
/// is there.
std::string kernel_page(const KernelProfile& profile);

}  // namespace microscale
