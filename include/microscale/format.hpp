// What numbers there are: dense element types (DType) and block-scaled formats (Format).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace microscale {

/// Dense element types an operation reads or writes.
enum class DType : std::uint8_t { f32, f16, bf16 };

/// Bytes of one element.
constexpr std::int64_t size_of(DType type) { return type == DType::f32 ? 4 : 2; }
std::string_view to_string(DType type);                   ///< "f32", "f16", "bf16"
std::optional<DType> parse_dtype(std::string_view name);  ///< also "fp32", "float16", ...

/// A code's numeric type. Bits of sign, exponent and mantissa are in the name.
enum class Element : std::uint8_t { e2m1, e4m3, e5m2, e2m3, e3m2, int8, e3m0, nf4 };

/// A block-scaled format: `block` consecutive elements along the block axis share one scale.
enum class Format : std::uint8_t {
  mxfp4,       ///< E2M1 codes, one E8M0 scale per 32 (OCP MX)
  nvfp4,       ///< E2M1 codes, one E4M3 scale per 16 and one FP32 global scale per tensor
  mxfp8_e4m3,  ///< E4M3 codes, one E8M0 scale per 32; plain "mxfp8" means this
  mxfp8_e5m2,  ///< E5M2 codes, one E8M0 scale per 32
  mxfp6_e2m3,  ///< E2M3 codes, one E8M0 scale per 32
  mxfp6_e3m2,  ///< E3M2 codes, one E8M0 scale per 32
  mxint8,      ///< INT8 codes (value = code / 64), one E8M0 scale per 32
};

struct FormatInfo {
  Format format;
  std::string_view name;  ///< "mxfp4", "mxfp8_e5m2", ...
  Element element;
  int block;                ///< elements that share one scale
  int code_bits;            ///< bits of one stored code: 4 or 8 (6-bit codes take a byte each)
  bool e8m0_scale;          ///< true: power-of-two scale byte; false: E4M3 scale and a global scale
  double bits_per_element;  ///< codes and scales as stored
};

const FormatInfo& info(
    Format format);  ///< throws Error{invalid_argument} for what is none of these
std::span<const FormatInfo> all_formats();
/// By name; "mxfp8" is mxfp8_e4m3. Nothing for an unknown name.
std::optional<Format> parse_format(std::string_view name);
/// "mxfp4, nvfp4, ...": for messages that list the choices.
std::string format_names();

/// Bytes that hold `count` codes of `format` packed along the block axis.
constexpr std::int64_t code_bytes(const FormatInfo& format, std::int64_t count) {
  return (count * format.code_bits + 7) / 8;
}

}  // namespace microscale
