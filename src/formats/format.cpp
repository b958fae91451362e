// Names and properties of the dense types and the block formats.
#include "microscale/format.hpp"

#include <array>

#include "microscale/error.hpp"

namespace microscale {
namespace {

constexpr std::array<FormatInfo, 7> formats{{
    {Format::mxfp4, "mxfp4", Element::e2m1, 32, 4, true, 4.25},
    {Format::nvfp4, "nvfp4", Element::e2m1, 16, 4, false, 4.5},
    {Format::mxfp8_e4m3, "mxfp8_e4m3", Element::e4m3, 32, 8, true, 8.25},
    {Format::mxfp8_e5m2, "mxfp8_e5m2", Element::e5m2, 32, 8, true, 8.25},
    {Format::mxfp6_e2m3, "mxfp6_e2m3", Element::e2m3, 32, 8, true, 8.25},
    {Format::mxfp6_e3m2, "mxfp6_e3m2", Element::e3m2, 32, 8, true, 8.25},
    {Format::mxint8, "mxint8", Element::int8, 32, 8, true, 8.25},
}};

}  // namespace

std::string_view to_string(DType type) {
  switch (type) {
    case DType::f32:
      return "f32";
    case DType::f16:
      return "f16";
    case DType::bf16:
      break;
  }
  return "bf16";
}

std::optional<DType> parse_dtype(std::string_view name) {
  if (name == "f32" || name == "fp32" || name == "float32") return DType::f32;
  if (name == "f16" || name == "fp16" || name == "float16") return DType::f16;
  if (name == "bf16" || name == "bfloat16") return DType::bf16;
  return std::nullopt;
}

const FormatInfo& info(Format format) {
  const auto index = static_cast<std::size_t>(format);
  if (index >= formats.size())
    throw Error(ErrorCode::invalid_argument,
                "Format " + std::to_string(index) + " is no format; use one of " + format_names());
  return formats[index];
}

std::span<const FormatInfo> all_formats() { return formats; }

std::optional<Format> parse_format(std::string_view name) {
  if (name == "mxfp8") return Format::mxfp8_e4m3;
  for (const FormatInfo& format : formats)
    if (format.name == name) return format.format;
  return std::nullopt;
}

std::string format_names() {
  std::string names;
  for (const FormatInfo& format : formats) {
    if (!names.empty()) names += ", ";
    names += format.name;
  }
  return names;
}

}  // namespace microscale
