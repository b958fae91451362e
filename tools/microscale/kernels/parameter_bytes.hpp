// What a kernel is handed: its arguments as bytes, each checked against the parameter that it is
// for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernel_arguments.hpp"
#include "microscale/emulator.hpp"

namespace microscale {

/// Where a buffer was while the kernel ran.
struct PlacedBuffer {
  std::string name;
  std::uint64_t address = 0;
  std::int64_t bytes = 0;
};

/// An argument, or a field of one, that is a buffer, and its name: its own, that of the source's
/// parameter, or "arg2"; of a field "arg2.0".
struct NamedArgument {
  std::string name;
  const KernelArgument* argument = nullptr;
  std::size_t number = 0;  ///< of the whole argument
};
/// In order, fields in their place. `source_names`: of the parameters, as far as they are known.
std::vector<NamedArgument> buffers_of(const std::vector<KernelArgument>& arguments,
                                      const std::vector<std::string>& source_names);

/// `placed`: as buffers_of has them. As many arguments as parameters: one for each, which must be
/// of its type where the kernel's name tells it; numbers without a type take it. Else the values
/// one after the other, each aligned to its size, as PTX lays scalars out, and C a struct. Throws
/// Error{invalid_argument}, naming the argument and the parameter.
std::vector<std::uint8_t> parameter_bytes(const emulator::KernelInfo& kernel,
                                          const std::vector<KernelArgument>& arguments,
                                          const std::vector<PlacedBuffer>& placed);

}  // namespace microscale
