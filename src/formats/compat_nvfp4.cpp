// NVFP4 as other tools make it: per tool, the block scale, the factor between input and element,
// and the element's encoding. Each formula keeps the tool's order of operations, one FP32 rounding
// each.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "formats/block_quantizer.hpp"
#include "formats/compat.hpp"
#include "formats/compat_elements.hpp"

namespace microscale {
namespace {

constexpr int block = 16;
constexpr float largest = std::numeric_limits<float>::max();
constexpr float sixth = 1.0f / 6.0f;
constexpr std::uint8_t negative_nan_scale = nvfp4_nan_scale | 0x80;

std::uint8_t nearest_e4m3(float value) { return UE4M3::encode(value, Rounding::nearest_even); }

std::uint8_t fill(std::uint8_t* codes, std::uint8_t code, std::uint8_t scale) {
  std::fill_n(codes, block, code);
  return scale;
}

template <class Element>
std::uint8_t encode_all(const float* values, std::uint8_t* codes, std::uint8_t scale,
                        Element&& element) {
  for (int i = 0; i < block; ++i) codes[i] = element(values[i]);
  return scale;
}

std::uint8_t nearest_e2m1(float scaled) { return E2M1::encode(scaled, Rounding::nearest_even); }

// torchao takes the top bits of a NaN: 4 of one that came out of an E4M3 NaN, 3 (and the sign,
// which x86 sets) of one that an operation made.
constexpr std::uint8_t torchao_nan_of_scale = 4, torchao_made_nan = 3 | 8;

std::uint8_t torchao(const float* values, const BlockRange& range, float global,
                     std::uint8_t* codes) {
  if (range.has_nan) return fill(codes, torchao_nan_of_scale, nvfp4_nan_scale);
  const float ratio = range.amax / 6.0f / global;
  if (std::isnan(ratio)) return fill(codes, torchao_nan_of_scale | 8, negative_nan_scale);
  const std::uint8_t scale = nearest_e4m3(std::clamp(ratio, 0x1p-6f, 448.0f));
  const float multiplier = 1.0f / global / UE4M3::decode(scale);
  return encode_all(values, codes, scale, [&](float value) {
    const float scaled = value * multiplier;
    return std::isnan(scaled) ? torchao_made_nan : nearest_e2m1(scaled);
  });
}

std::uint8_t modelopt(const float* values, const BlockRange& range, float global,
                      std::uint8_t* codes) {
  if (range.has_nan) return fill(codes, E2M1::max_code, nvfp4_nan_scale);
  float ratio = range.amax / (6.0f * global);
  if (std::isnan(ratio)) return fill(codes, E2M1::max_code, negative_nan_scale);
  if (ratio == 0) ratio = 1.0f;
  const std::uint8_t scale = nearest_e4m3(std::clamp(ratio, 0x1p-9f, 448.0f));
  const float step = UE4M3::decode(scale) * global;
  return encode_all(values, codes, scale, [&](float value) {
    const float scaled = value / step;
    return std::isnan(scaled) ? E2M1::max_code : signed_by_comparison_e2m1(scaled);
  });
}

// amax / 6 is rounded to the input's type; a scale that underflows to 0 becomes 0.125.
std::uint8_t compressed_tensors(const float* values, const BlockRange& range, DType dtype,
                                float global, std::uint8_t* codes) {
  if (range.has_nan) return fill(codes, E2M1::nan_code, nvfp4_nan_scale);
  const float ratio = global * round_to(dtype, range.amax / 6.0f);
  if (std::isnan(ratio)) return fill(codes, E2M1::nan_code, nvfp4_nan_scale);
  std::uint8_t scale = nearest_e4m3(ratio);
  if (scale == 0) scale = 0x20;
  const float step = UE4M3::decode(scale) / global;
  return encode_all(values, codes, scale,
                    [&](float value) { return signed_by_comparison_e2m1(value / step); });
}

std::uint8_t transformer_engine(const float* values, float amax, float global,
                                std::uint8_t* codes) {
  const std::uint8_t scale = nearest_e4m3(std::min(amax * (global * sixth), largest));
  const float inverse = 1.0f / (UE4M3::decode(scale) * (1.0f / global));
  const float multiplier = std::min(inverse, largest);
  return encode_all(values, codes, scale,
                    [&](float value) { return nearest_e2m1(value * multiplier); });
}

// The exact path; unlike Transformer Engine the factor may be infinite, and is 0 for a block of
// zeros.
std::uint8_t flashinfer(const float* values, float amax, float global, std::uint8_t* codes) {
  const std::uint8_t scale = nearest_e4m3(amax * (global * sixth));
  const float multiplier = amax == 0 ? 0.0f : 1.0f / (UE4M3::decode(scale) * (1.0f / global));
  return encode_all(values, codes, scale,
                    [&](float value) { return nearest_e2m1(value * multiplier); });
}

// rcp.approx.ftz modelled by a rounded division with subnormals flushed.
float reciprocal(float value) {
  const auto flush = [](float x) { return std::fabs(x) < 0x1p-126f ? 0.0f : x; };
  return flush(1.0f / flush(value));
}

std::uint8_t vllm(const float* values, float amax, float global, std::uint8_t* codes) {
  const std::uint8_t scale = nearest_e4m3(global * (amax * sixth));
  const float multiplier =
      scale == 0 ? 0.0f : reciprocal(UE4M3::decode(scale) * reciprocal(global));
  return encode_all(values, codes, scale,
                    [&](float value) { return nearest_e2m1(value * multiplier); });
}

// llama.cpp's scale: half up, 7 at most among subnormals, and everything from 248 on is 448.
std::uint8_t llama_cpp_scale(float value) {
  if (!(value > 0)) return 0;
  value = std::min(value, 448.0f);
  const auto bits = std::bit_cast<std::uint32_t>(value);
  int exponent = static_cast<int>(bits >> 23) - 127 + 7;
  if (exponent <= 0)
    return static_cast<std::uint8_t>(std::min(static_cast<int>(value * 512.0f + 0.5f), 7));
  int mantissa = static_cast<int>((bits >> 20 & 7u) + (bits >> 19 & 1u));
  if (mantissa > 7) {
    mantissa = 0;
    ++exponent;
  }
  return exponent >= 15 ? nvfp4_max_scale : static_cast<std::uint8_t>(exponent << 3 | mantissa);
}

std::uint8_t llama_cpp(const float* values, float amax, std::uint8_t* codes) {
  const std::uint8_t scale = llama_cpp_scale(amax / 6.0f);
  const float half_scale = 0.5f * UE4M3::decode(scale);
  return encode_all(values, codes, scale,
                    [&](float value) { return least_error_e2m1(value, half_scale); });
}

}  // namespace

std::uint8_t detail::quantize_nvfp4_block_as_tool(const ToolBlocks& call, const float* values,
                                                  std::uint8_t* codes) {
  const BlockRange range = block_range<block>(values);
  const float global = call.own_global;
  switch (call.numerics.compat) {
    case Compat::torchao:
      return torchao(values, range, global, codes);
    case Compat::modelopt:
      return modelopt(values, range, global, codes);
    case Compat::compressed_tensors:
      return compressed_tensors(values, range, call.dtype, global, codes);
    case Compat::flashinfer:
      return flashinfer(values, range.amax, global, codes);
    case Compat::vllm:
      return vllm(values, range.amax, global, codes);
    case Compat::llama_cpp:
      return llama_cpp(values, range.amax, codes);
    default:
      return transformer_engine(values, range.amax, global, codes);
  }
}

}  // namespace microscale
