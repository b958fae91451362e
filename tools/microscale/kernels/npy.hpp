// Arrays in .npy files, bytes and shape: what NumPy writes, little-endian and in C order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace microscale {

enum class ArrayType : std::uint8_t { u8, s8, u16, s16, f16, bf16, u32, s32, f32, u64, s64, f64 };
std::string_view name_of(ArrayType type);  ///< "f32"
std::optional<ArrayType> array_type(std::string_view name);
std::size_t bytes_of(ArrayType type);

/// `value` as the type holds it, in the low bytes: integers truncated toward zero, floats to the
/// nearest.
std::uint64_t bits_of(ArrayType type, double value);

struct Array {
  ArrayType type = ArrayType::f32;
  std::vector<std::int64_t> shape;
  std::vector<std::uint8_t> bytes;

  std::int64_t elements() const;
};

/// Throws Error{io} or Error{bad_input}. Two bytes without a type (what NumPy makes of bfloat16)
/// are bf16.
Array read_npy(const std::filesystem::path& path);
/// Throws Error; old contents or new ones, never a mixture.
void write_npy(const std::filesystem::path& path, const Array& array);

}  // namespace microscale
