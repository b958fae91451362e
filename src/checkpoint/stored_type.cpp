#include "checkpoint/stored_type.hpp"

#include <fmt/format.h>

#include <array>
#include <string>

namespace microscale {
namespace {

struct TypeFacts {
  const char* name;
  int bits;
};

constexpr std::array<TypeFacts, stored_type_count> types{{
    {"BOOL", 8},        {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
    {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
    {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16},    {"BF16", 16},
    {"I32", 32},        {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64},
    {"I64", 64},        {"U64", 64},
}};

Failure bad_size(std::string problem) { return {ErrorCode::bad_input, std::move(problem)}; }

}  // namespace

const char* to_string(StoredType type) { return types[static_cast<std::size_t>(type)].name; }

std::optional<StoredType> stored_type_from_name(std::string_view name) {
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (name == types[i].name) return static_cast<StoredType>(i);
  }
  return std::nullopt;
}

int bits_per_element(StoredType type) { return types[static_cast<std::size_t>(type)].bits; }

Result<std::uint64_t> stored_bytes(StoredType type, std::span<const std::int64_t> shape) {
  // Zero dimensions are looked at last, so that [2^40, 2^40, 0] overflows like [2^40, 2^40].
  std::uint64_t elements = 1;
  bool empty = false;
  for (const std::int64_t dimension : shape) {
    if (dimension < 0 || static_cast<std::uint64_t>(dimension) > max_safetensors_integer) {
      return bad_size(fmt::format("the dimension {} is not in 0 ... 2^48", dimension));
    }
    if (dimension == 0) {
      empty = true;
    } else if (__builtin_mul_overflow(elements, static_cast<std::uint64_t>(dimension), &elements)) {
      return bad_size("the product of its dimensions overflows 64 bits");
    }
  }
  std::uint64_t bits = 0;
  if (__builtin_mul_overflow(elements, static_cast<std::uint64_t>(bits_per_element(type)), &bits)) {
    return bad_size("its size in bits overflows 64 bits");
  }
  if (empty) return std::uint64_t{0};
  if (bits % 8 != 0) {
    return bad_size(fmt::format("{} elements of {} bits do not fill whole bytes", elements,
                                bits_per_element(type)));
  }
  return bits / 8;
}

}  // namespace microscale
