#include "checkpoint/fp8_rows.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "formats/elements.hpp"
#include "formats/half.hpp"

namespace microscale {
namespace {

constexpr std::int64_t run = error_run_elements;
using Run = std::array<float, static_cast<std::size_t>(run)>;

std::uint16_t scale_for(float amax) {
  if (amax == 0.0f) return float_to_bf16(1.0f);
  const std::uint16_t scale = float_to_bf16(amax / E4M3::max_value);
  return std::max(scale, float_to_bf16(std::numeric_limits<float>::min()));
}

// E4M3 of a finite value, to nearest even, saturated; no branch, so that compilers use vectors.
std::uint8_t encode(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude =
      std::min(bits & 0x7FFFFFFFu, std::bit_cast<std::uint32_t>(E4M3::max_value));
  // Normal ones, from 2^-6: three bits of the mantissa stay, the bias becomes 7.
  const std::uint32_t normal =
      ((magnitude + 0x7FFFFu + ((magnitude >> 20) & 1u)) >> 20) - ((127u - 7u) << 3);
  // Below, steps of 2^-9: adding 2^14 rounds there.
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0x1p14f) & 0xFFu;
  const std::uint32_t code = magnitude < std::bit_cast<std::uint32_t>(0x1p-6f) ? subnormal : normal;
  return static_cast<std::uint8_t>(code | (bits >> 24 & 0x80u));
}

const std::array<float, 256>& values_of_codes() {
  static const std::array<float, 256> values = [] {
    std::array<float, 256> all{};
    for (int code = 0; code < 256; ++code)
      all[static_cast<std::size_t>(code)] = E4M3::decode(static_cast<std::uint8_t>(code));
    return all;
  }();
  return values;
}

// Elements [begin, end) under one scale; `codes`: of element 0 on.
void encode_range(const DenseRows& input, std::int64_t begin, std::int64_t end, float scale,
                  std::uint8_t* codes) {
  Run values;
  for (std::int64_t at = begin; at < end; at += run) {
    const std::int64_t count = std::min(run, end - at);
    load_elements(input.elements, input.dtype, at, count, values.data());
    for (std::int64_t i = 0; i < count; ++i)
      codes[at + i] = encode(values[static_cast<std::size_t>(i)] / scale);
  }
}

// scale_of(element): what its code is multiplied by.
template <class ScaleOf>
TileCost measure(const DenseRows& input, std::span<const std::uint8_t> codes, ScaleOf scale_of) {
  const std::array<float, 256>& values = values_of_codes();
  TileCost cost;
  Run original, restored;
  const std::int64_t elements = input.rows * input.cols;
  for (std::int64_t first = 0; first < elements; first += run) {
    const std::int64_t count = std::min(run, elements - first);
    load_elements(input.elements, input.dtype, first, count, original.data());
    for (std::int64_t i = 0; i < count; ++i) {
      const std::uint8_t code = codes[static_cast<std::size_t>(first + i)];
      restored[static_cast<std::size_t>(i)] = values[code] * scale_of(first + i);
      ++cost.element_codes[code];
    }
    const auto length = static_cast<std::size_t>(count);
    cost.error.add({original.data(), length}, {restored.data(), length}, 0);
  }
  return cost;
}

}  // namespace

void quantize_fp8_rows(const DenseRows& input, std::span<std::uint8_t> codes,
                       std::span<std::uint16_t> scales) {
  Run values;
  for (std::int64_t row = 0; row < input.rows; ++row) {
    const std::int64_t begin = row * input.cols, end = begin + input.cols;
    float amax = 0;
    for (std::int64_t at = begin; at < end; at += run) {
      const std::int64_t count = std::min(run, end - at);
      load_elements(input.elements, input.dtype, at, count, values.data());
      for (std::int64_t i = 0; i < count; ++i)
        amax = std::max(amax, std::fabs(values[static_cast<std::size_t>(i)]));
    }
    const std::uint16_t stored = scale_for(amax);
    const float scale = bf16_to_float(stored);
    scales[static_cast<std::size_t>(row)] = stored;
    encode_range(input, begin, end, scale, codes.data());
  }
}

TileCost measure_fp8_rows(const DenseRows& input, std::span<const std::uint8_t> codes,
                          std::span<const std::uint16_t> scales) {
  return measure(input, codes, [&](std::int64_t at) {
    return bf16_to_float(scales[static_cast<std::size_t>(at / input.cols)]);
  });
}

void restore_fp8(std::span<const std::uint8_t> codes, float scale, float* out) {
  const std::array<float, 256>& values = values_of_codes();
  for (const std::uint8_t code : codes) *out++ = values[code] * scale;
}

float fp8_tensor_scale(float amax) {
  return amax == 0.0f ? 1.0f : std::max(amax / E4M3::max_value, std::numeric_limits<float>::min());
}

void quantize_fp8_tensor(const DenseRows& input, float scale, std::span<std::uint8_t> codes) {
  encode_range(input, 0, input.rows * input.cols, scale, codes.data());
}

TileCost measure_fp8_tensor(const DenseRows& input, std::span<const std::uint8_t> codes,
                            float scale) {
  return measure(input, codes, [&](std::int64_t) { return scale; });
}

}  // namespace microscale
