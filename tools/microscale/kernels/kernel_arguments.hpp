// Arguments of a kernel as words of the command line: "u64:4096", "out=f32[64,64]",
// "in=f32[1024]:normal,7", "in.npy", "null".
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "npy.hpp"

namespace microscale {

struct KernelArgument {
  std::string name;            ///< empty: not given
  std::filesystem::path file;  ///< that it was read from; empty: none
  bool buffer = false;         ///< a pointer to array's bytes; else a value
  bool written = true;         ///< of a buffer: its bytes have values before the kernel runs
  Array array;                 ///< of a value: one element
};

/// Throws Error{invalid_argument}; what is wrong with a file is said by read_npy. Every generator
/// gives the same numbers for the same seed.
KernelArgument kernel_argument(const std::string& word);

}  // namespace microscale
