// The element types of safetensors files and how much room they take.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "core/result.hpp"

namespace microscale {

/// Largest dimension or offset accepted.
inline constexpr std::uint64_t max_safetensors_integer = std::uint64_t{1} << 48;

/// Element types a safetensors file can hold, in the order in which writers rank them.
enum class StoredType : std::uint8_t {
  boolean,
  f4,
  f6_e2m3,
  f6_e3m2,
  u8,
  i8,
  f8_e5m2,
  f8_e4m3,
  f8_e8m0,
  f8_e4m3fnuz,
  f8_e5m2fnuz,
  i16,
  u16,
  f16,
  bf16,
  i32,
  u32,
  f32,
  c64,
  f64,
  i64,
  u64,
};
inline constexpr int stored_type_count = 22;

/// The name in the file: "F8_E4M3", "BF16", "BOOL".
const char* to_string(StoredType type);
std::optional<StoredType> stored_type_from_name(std::string_view name);
/// 4, 6, or a whole number of bytes.
int bits_per_element(StoredType type);

/// Bytes of a tensor of this type and shape; a failure (a phrase about the tensor, not a sentence)
/// when the product overflows, when a dimension is negative or above 2^48, or when the bits do not
/// fill whole bytes.
Result<std::uint64_t> stored_bytes(StoredType type, std::span<const std::int64_t> shape);

}  // namespace microscale
