#include "cpu/matmul_rows.hpp"

#include <algorithm>
#include <array>

#include "formats/e8m0.hpp"
#include "formats/elements.hpp"
#include "formats/nvfp4.hpp"

namespace microscale::cpu {
namespace {

constexpr int too_large_scale = 211;  // 2^84, times an element below 2^16

bool has_kernel(Format format) {
  return format == Format::mxfp4 || format == Format::nvfp4 || format == Format::mxfp8_e4m3 ||
         format == Format::mxfp8_e5m2;
}

using Values = std::array<float, 256>;

template <class Codec>
constexpr Values values_of() {
  Values values{};
  for (std::size_t c = 0; c < values.size(); ++c)
    values[c] = Codec::decode(static_cast<std::uint8_t>(c % Codec::code_count));
  return values;
}

const Values& values_of(Element element) {
  static constexpr Values e2m1 = values_of<E2M1>(), e4m3 = values_of<E4M3>(),
                          e5m2 = values_of<E5M2>();
  return element == Element::e4m3 ? e4m3 : element == Element::e5m2 ? e5m2 : e2m1;
}

constexpr Values scales_of(bool e8m0) {
  Values values{};
  for (std::size_t s = 0; s < values.size(); ++s)
    values[s] = e8m0 ? decode_e8m0(static_cast<std::uint8_t>(s))
                     : UE4M3::decode(static_cast<std::uint8_t>(s));
  return values;
}

bool inside(const FormatInfo& format, std::uint8_t scale) {
  return !format.e8m0_scale || scale < too_large_scale || scale == e8m0_nan;
}

}  // namespace

bool covers_matmul(const MatmulProduct& product) {
  return has_kernel(product.b_format) && (product.a.dense() || has_kernel(product.a.format));
}

bool blocks_to_floats(const MatmulRows& rows, std::int64_t row, std::int64_t first,
                      std::int64_t count, float* output) {
  const std::uint8_t* data = rows.data + row * rows.stride;
  const FormatInfo& format = info(rows.format);
  const Values& values = values_of(format.element);
  const float* steps = scale_values(rows.format);
  const std::uint8_t* scales = rows.scales + row * rows.scale_stride;
  bool all_inside = true;
  for (std::int64_t i = first; i < first + count; i += format.block) {
    const std::uint8_t scale = scales[i / format.block];
    all_inside &= inside(format, scale);
    const float step = steps[scale];
    if (format.code_bits == 8) {
      for (int e = 0; e < format.block; ++e) *output++ = values[data[i + e]] * step;
      continue;
    }
    for (int e = 0; e < format.block; e += 2) {
      const std::uint8_t pair = data[(i + e) / 2];
      *output++ = values[pair & 15] * step;
      *output++ = values[pair >> 4] * step;
    }
  }
  return all_inside;
}

const float* scale_values(Format format) {
  static constexpr Values e8m0 = scales_of(true), e4m3 = scales_of(false);
  return (info(format).e8m0_scale ? e8m0 : e4m3).data();
}

bool scales_inside(const MatmulRows& rows, std::int64_t row, std::int64_t count) {
  const FormatInfo& format = info(rows.format);
  const std::uint8_t* scales = rows.scales + row * rows.scale_stride;
  return std::all_of(scales, scales + count / format.block,
                     [&](std::uint8_t scale) { return inside(format, scale); });
}

}  // namespace microscale::cpu
