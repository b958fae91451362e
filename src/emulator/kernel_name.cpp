#include "emulator/kernel_name.hpp"

#include <cxxabi.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>

#include "microscale/error.hpp"

namespace microscale::emulator {
namespace {

std::string demangled(const std::string& name) {
  if (!name.starts_with("_Z")) return name;
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), std::free);
  return status == 0 ? text.get() : name;
}

struct NumberWords {
  std::string_view cpp, word;
  std::int64_t bytes;
};
constexpr std::array numbers = {
    NumberWords{"bool", "u8", 1},          NumberWords{"char", "s8", 1},
    NumberWords{"signed char", "s8", 1},   NumberWords{"unsigned char", "u8", 1},
    NumberWords{"short", "s16", 2},        NumberWords{"unsigned short", "u16", 2},
    NumberWords{"int", "s32", 4},          NumberWords{"unsigned int", "u32", 4},
    NumberWords{"long", "s64", 8},         NumberWords{"unsigned long", "u64", 8},
    NumberWords{"long long", "s64", 8},    NumberWords{"unsigned long long", "u64", 8},
    NumberWords{"float", "f32", 4},        NumberWords{"double", "f64", 8},
    NumberWords{"__half", "f16", 2},       NumberWords{"__nv_bfloat16", "bf16", 2},
    NumberWords{"__nv_fp8_e4m3", "u8", 1}, NumberWords{"__nv_fp8_e5m2", "u8", 1},
};
// CUDA's vectors: char4, uint2, float3.
constexpr std::array vectors = {
    NumberWords{"char", "s8", 1},      NumberWords{"uchar", "u8", 1},
    NumberWords{"short", "s16", 2},    NumberWords{"ushort", "u16", 2},
    NumberWords{"int", "s32", 4},      NumberWords{"uint", "u32", 4},
    NumberWords{"long", "s64", 8},     NumberWords{"ulong", "u64", 8},
    NumberWords{"longlong", "s64", 8}, NumberWords{"ulonglong", "u64", 8},
    NumberWords{"float", "f32", 4},    NumberWords{"double", "f64", 8},
};

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

/// Where the parameters' list begins: the '(' that the last ')' closes.
std::size_t list_begin(std::string_view name, std::size_t last) {
  int depth = 0;
  for (std::size_t at = last + 1; at-- > 0;) {
    if (name[at] == ')') ++depth;
    if (name[at] == '(' && --depth == 0) return at;
  }
  return name.npos;
}

std::vector<std::string_view> listed(std::string_view list) {
  std::vector<std::string_view> parts;
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t at = 0; at <= list.size(); ++at) {
    if (at == list.size() || (list[at] == ',' && depth == 0)) {
      parts.push_back(trimmed(list.substr(begin, at - begin)));
      begin = at + 1;
    } else if (list[at] == '<' || list[at] == '(' || list[at] == '[' || list[at] == '{') {
      ++depth;
    } else if (list[at] == '>' || list[at] == ')' || list[at] == ']' || list[at] == '}') {
      --depth;
    }
  }
  return parts;
}

/// Without const, volatile and __restrict__ behind it.
std::string_view unqualified(std::string_view type) {
  for (bool again = true; again;) {
    again = false;
    type = trimmed(type);
    for (const std::string_view word : {" const", " volatile", "__restrict__", "__restrict"})
      if (type.ends_with(word)) type.remove_suffix(word.size()), again = true;
    for (const std::string_view word : {"const ", "volatile "})
      if (type.starts_with(word)) type.remove_prefix(word.size()), again = true;
  }
  return type;
}

}  // namespace

std::string readable_name(const std::string& name) {
  std::string text = demangled(name);
  if (text.starts_with("void ")) text.erase(0, 5);
  // nvcc gives a namespace without a name a number of its own.
  for (const std::string_view nameless : {"(anonymous namespace)::", "_GLOBAL__N__"})
    for (std::size_t at; (at = text.find(nameless)) != text.npos;) {
      const std::size_t end = text.find("::", at);
      text.erase(at, end == text.npos ? text.npos : end + 2 - at);
    }
  return text;
}

std::string_view bare_name(std::string_view readable) {
  const std::string_view name = readable.substr(0, readable.find_first_of("<("));
  const std::size_t scope = name.rfind("::");
  return scope == name.npos ? name : name.substr(scope + 2);
}

std::string variable_name(const std::string& name) {
  const std::string text = demangled(name);
  const std::size_t scope = text.rfind("::");
  return scope == text.npos || text.find(')', scope) != text.npos ? text : text.substr(scope + 2);
}

std::string kernel_of(const std::vector<std::string>& kernels, const std::string& word,
                      std::string_view option) {
  const auto wrong = [](const std::string& message) {
    return Error(ErrorCode::invalid_argument, message);
  };
  if (kernels.empty()) throw wrong("the file has no kernel; name one with a .entry");
  if (word.empty() && kernels.size() == 1) return kernels[0];
  std::vector<std::string> fitting, called;
  for (const std::string& each : kernels) {
    if (each == word) return each;
    const std::string readable = readable_name(each);
    if (bare_name(readable) == word) called.push_back(each);
    if (!word.empty() && (each.find(word) != each.npos || readable.find(word) != readable.npos))
      fitting.push_back(each);
  }
  if (called.size() == 1) return called[0];
  if (fitting.size() == 1) return fitting[0];
  std::vector<std::string> names;
  for (const std::string& each : fitting.empty() ? kernels : fitting)
    names.push_back(readable_name(each));
  if (word.empty())
    throw wrong(fmt::format("the file has {} kernels; choose one with {}: {}", names.size(), option,
                            fmt::join(names, ", ")));
  throw wrong(
      fmt::format("{} got '{}', which {}; choose one of {}", option, word,
                  fitting.empty() ? "no kernel here is called" : "several kernels are called",
                  fmt::join(names, ", ")));
}

std::string variable_of(const std::vector<std::string>& variables, const std::string& word,
                        std::string_view option) {
  std::vector<std::string> fitting;
  for (const std::string& each : variables) {
    if (each == word) return each;
    if (variable_name(each) == word) fitting.push_back(each);
  }
  if (fitting.size() == 1) return fitting[0];
  const std::vector<std::string>& names = fitting.empty() ? variables : fitting;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{} got '{}', which {}; {}", option, word,
                          fitting.empty() ? "no variable in global or constant memory is called"
                                          : "several variables are called",
                          names.empty() ? std::string("there are none")
                                        : fmt::format("choose one of {}", fmt::join(names, ", "))));
}

std::int64_t NumberType::align() const {
  const std::int64_t whole = bytes * lanes;
  return lanes == 3 ? bytes : std::min<std::int64_t>(whole, 16);
}

std::optional<NumberType> number_type(std::string_view cpp) {
  cpp = unqualified(cpp);
  for (const NumberWords& each : numbers)
    if (each.cpp == cpp) return NumberType{std::string(each.word), each.bytes, 1};
  if (cpp == "dim3") return NumberType{"u32", 4, 3};
  if (cpp == "__half2" || cpp == "__nv_bfloat162")
    return NumberType{cpp == "__half2" ? "f16" : "bf16", 2, 2};
  if (cpp.empty() || cpp.back() < '1' || cpp.back() > '4') return std::nullopt;
  for (const NumberWords& each : vectors)
    if (each.cpp == cpp.substr(0, cpp.size() - 1))
      return NumberType{std::string(each.word), each.bytes, cpp.back() - '0'};
  return std::nullopt;
}

std::optional<std::vector<ParameterType>> parameter_types(const std::string& kernel) {
  const std::string name = demangled(kernel);
  const std::size_t last = name.rfind(')');
  if (name == kernel || last == name.npos) return std::nullopt;
  const std::size_t begin = list_begin(name, last);
  if (begin == name.npos) return std::nullopt;
  std::vector<ParameterType> types;
  const std::string_view list = std::string_view(name).substr(begin + 1, last - begin - 1);
  if (trimmed(list).empty()) return types;
  for (const std::string_view each : listed(list)) {
    ParameterType type{.text = std::string(each), .pointer = false, .number = std::nullopt};
    std::string_view value = unqualified(each);
    if (value.ends_with('*')) {
      type.pointer = true;
      value.remove_suffix(1);
    }
    type.number = number_type(value);
    types.push_back(std::move(type));
  }
  return types;
}

}  // namespace microscale::emulator
