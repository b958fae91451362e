#include "checkpoint/weight_format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "checkpoint/tile.hpp"

namespace microscale {
namespace {

constexpr std::array formats{WeightFormat::nvfp4, WeightFormat::mxfp4, WeightFormat::mxfp8,
                             WeightFormat::fp8, WeightFormat::fp8_tensor};

constexpr std::string_view everything = "*";  // as a pattern

}  // namespace

std::span<const WeightFormat> all_weight_formats() { return formats; }

std::optional<Format> blocks_of(WeightFormat format) {
  switch (format) {
    case WeightFormat::nvfp4:
      return Format::nvfp4;
    case WeightFormat::mxfp4:
      return Format::mxfp4;
    case WeightFormat::mxfp8:
      return Format::mxfp8_e4m3;
    case WeightFormat::fp8:
    case WeightFormat::fp8_tensor:
      break;
  }
  return std::nullopt;
}

std::optional<WeightFormat> weight_format_of(Format format) {
  const auto found = std::find_if(formats.begin(), formats.end(),
                                  [&](WeightFormat each) { return blocks_of(each) == format; });
  return found == formats.end() ? std::nullopt : std::optional(*found);
}

std::string_view to_string(WeightFormat format) {
  switch (format) {
    case WeightFormat::nvfp4:
      return "nvfp4";
    case WeightFormat::mxfp4:
      return "mxfp4";
    case WeightFormat::mxfp8:
      return "mxfp8";
    case WeightFormat::fp8_tensor:
      return "fp8_tensor";
    case WeightFormat::fp8:
      break;
  }
  return "fp8";
}

std::optional<WeightFormat> parse_weight_format(std::string_view name) {
  if (const auto format = parse_format(name)) return weight_format_of(*format);
  if (name == "fp8_tensor") return WeightFormat::fp8_tensor;
  return name == "fp8" ? std::optional(WeightFormat::fp8) : std::nullopt;
}

void set_format(QuantizeModelOptions& options, WeightFormat format) {
  if (const auto blocks = blocks_of(format)) {
    options.format = *blocks;
    return;
  }
  const bool scaled = options.container == Container::modelopt && !options.input_scales.empty();
  options.format = Format::mxfp8_e4m3;  // of no layer
  options.use.push_back({std::string(everything), scaled ? WeightFormat::fp8_tensor : format});
}

WeightFormat main_format(const QuantizeModelOptions& options) {
  const auto all = std::find_if(options.use.begin(), options.use.end(),
                                [](const UseFormat& use) { return use.pattern == everything; });
  return all == options.use.end() ? *weight_format_of(options.format) : all->format;
}

bool has_tensor_scale(WeightFormat format) {
  return format == WeightFormat::nvfp4 || format == WeightFormat::fp8_tensor;
}

int code_bits(WeightFormat format) {
  const auto blocks = blocks_of(format);
  return blocks ? info(*blocks).code_bits : 8;
}

std::string block_problem(std::int64_t row_length, WeightFormat format) {
  if (const auto blocks = blocks_of(format)) {
    const int block = info(*blocks).block;
    return row_length % block == 0 ? ""
                                   : fmt::format("K = {} is no multiple of {}", row_length, block);
  }
  if (format == WeightFormat::fp8_tensor) return "";
  // A row is quantized as one piece.
  return row_length <= tile_elements
             ? ""
             : fmt::format("K = {} is more than {}", row_length, tile_elements);
}

Numerics numerics_of(const QuantizeModelOptions& options, Format format) {
  Numerics numerics = options.numerics;
  if (format == options.format) return numerics;
  if (numerics.compat != Compat::none) {
    numerics = numerics_for(numerics.compat, format);
    numerics.seed = options.numerics.seed;
    return numerics;
  }
  const auto rules = scale_rules(format);
  if (std::find(rules.begin(), rules.end(), numerics.scale_rule) == rules.end()) {
    numerics.scale_rule = ScaleRule::search;
  }
  return numerics;
}

}  // namespace microscale
