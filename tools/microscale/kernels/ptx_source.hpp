// Where the PTX of a command comes from: a file of it, a pipe, or CUDA source that nvcc compiles.
#pragma once

#include <filesystem>
#include <string>

namespace microscale {

/// What is in a PTX file, or comes through a pipe; of a .cu file, what nvcc makes of it for
/// `target` (empty: sm_90a). Throws Error{io}; Error{unsupported} for a .cu file where nvcc is not
/// found; Error{bad_input} with the compiler's words where it refuses the source, and for a cubin.
std::string ptx_text(const std::filesystem::path& path, const std::string& target);

}  // namespace microscale
