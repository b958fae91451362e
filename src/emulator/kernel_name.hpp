// What the names in a PTX text say: a kernel's readable name, and by its mangling the C++ types of
// its parameters.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace microscale::emulator {

/// "naive(Args)" of a mangled name, without namespaces that have no name; another name as it is.
std::string readable_name(const std::string& name);
/// "tiled" of "levels::tiled<32, 1024>(levels::Args)".
std::string_view bare_name(std::string_view readable);
/// "tile" of the array in shared memory that nvcc calls "_ZZ4racePfE4tile".
std::string variable_name(const std::string& name);

/// The kernel that `word` means: a whole name, the bare name of only one, a part of the name of
/// only one, or nothing where there is only one. Throws Error{invalid_argument}, which calls the
/// word `option` and lists the choices.
std::string kernel_of(const std::vector<std::string>& kernels, const std::string& word,
                      std::string_view option);

/// The same of variables: a whole name, or what is called so in only one scope.
std::string variable_of(const std::vector<std::string>& variables, const std::string& word,
                        std::string_view option);

/// A C++ number that a kernel takes or a pointer leads to.
struct NumberType {
  std::string word;            ///< "f32", "s64": as --arg has it
  std::int64_t bytes = 0;      ///< of one
  std::int64_t lanes = 1;      ///< float4: 4
  std::int64_t align() const;  ///< of the whole: float3 4, float4 16
};
/// "float", "unsigned int", "__half", "float4", "dim3"; nothing for other types.
std::optional<NumberType> number_type(std::string_view cpp);

struct ParameterType {
  std::string text;  ///< "float const*"
  bool pointer = false;
  std::optional<NumberType> number;  ///< it, or what it leads to
};
/// Of a kernel's parameters; nothing where the name does not tell: `extern "C"`, or not C++.
std::optional<std::vector<ParameterType>> parameter_types(const std::string& kernel);

}  // namespace microscale::emulator
