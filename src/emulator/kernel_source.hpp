// What CUDA source says of a kernel that its PTX does not: the names of its parameters.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace microscale::emulator {

/// Of the kernel with this bare name ("scale"); empty where the source defines none, or leaves a
/// parameter without a name.
std::vector<std::string> parameter_names(std::string_view source, std::string_view kernel);

}  // namespace microscale::emulator
