// Arguments of a kernel as words of the command line: "u64:4096", "3", "out=f32[64,64]",
// "in=f32[1024]:normal,7", "in.npy", "null", "{in.npy,s32:5}", "tensormap:in.npy,box=64x64".
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "npy.hpp"

namespace microscale {

/// Boxes of an array, as cuTensorMapEncodeTiled takes them.
struct BoxWords {
  std::vector<std::uint32_t> box;  ///< elements, axes as the array's shape
  int swizzle = 0;                 ///< bytes: 0, 32, 64 or 128
};

struct KernelArgument {
  std::string name;            ///< empty: not given
  std::filesystem::path file;  ///< that it was read from; empty: none
  bool buffer = false;         ///< a pointer to array's bytes; else a value
  bool written = true;         ///< of a buffer: its bytes have values before the kernel runs
  Array array;                 ///< of a value: one element
  std::string number;          ///< a value that takes the parameter's type: "3"; else empty
  std::vector<KernelArgument> fields;  ///< of a struct; else empty
  std::optional<BoxWords> map;  ///< of a buffer: its tensor map is handed over, not its address
};

/// Throws Error{invalid_argument}; what is wrong with a file is said by read_npy. Every generator
/// gives the same numbers for the same seed.
KernelArgument kernel_argument(const std::string& word);
/// The bits of a number written as `text` for a type; throws the same, with `word` as what was
/// given.
std::uint64_t value_bits(const std::string& word, ArrayType type, std::string_view text);

}  // namespace microscale
