// Style, script and data of the kernel page that it shares with nothing else.
#pragma once

#include <string>
#include <string_view>

#include "profile/kernel_profile.hpp"

namespace microscale {

std::string_view kernel_page_style();   ///< CSS beside page_style()
std::string_view kernel_page_script();  ///< choosing lines and accesses, stepping through the warp

/// What the script steps through, as JSON without < > and &: code, registers, steps, buffers. A row
/// of 32 equal values is written once.
std::string trace_json(const KernelProfile& profile);

}  // namespace microscale
