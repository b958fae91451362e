#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>

#include "formats/e8m0.hpp"
#include "formats/elements.hpp"
#include "microscale/error.hpp"
#include "microscale/quantize.hpp"
#include "support/matrices.hpp"

namespace microscale {
namespace {

using test::gaussian;
using test::Matrix;

/// By the codecs, a scale with its global scale rounded to FP32 first.
float code_times_scale(const BlockTensor& q, std::int64_t row, std::int64_t col) {
  const FormatInfo& format = info(q.shape().format);
  const std::int64_t at = row * q.shape().cols + col;
  const std::uint8_t scale = q.scales()[static_cast<std::size_t>(at / format.block)];
  const float factor =
      format.e8m0_scale ? decode_e8m0(scale) : UE4M3::decode(scale) * q.global_scale;
  const std::uint8_t byte = q.codes()[static_cast<std::size_t>(at * format.code_bits / 8)];
  const int code = format.code_bits == 8 ? byte : byte >> (at % 2 * 4) & 15;
  return factor * with_codec(format.element, [&](auto codec) {
           return static_cast<float>(decltype(codec)::decode(static_cast<std::uint8_t>(code)));
         });
}

TEST(Dequantize, gives_code_times_scale_in_every_output_type) {
  const Matrix m = gaussian(DType::f32, 6, 96);
  for (const FormatInfo& format : all_formats()) {
    const BlockTensor q = quantize({.input = m.view(), .format = format.format});
    Matrix f32(DType::f32, 6, 96), bf16(DType::bf16, 6, 96), f16(DType::f16, 6, 96);
    dequantize(q.view(), f32.mutable_view());
    dequantize(q.view(), bf16.mutable_view());
    dequantize(q.view(), f16.mutable_view());
    Matrix expected_bf16(DType::bf16, 6, 96), expected_f16(DType::f16, 6, 96);
    for (std::int64_t r = 0; r < 6; ++r)
      for (std::int64_t c = 0; c < 96; ++c) {
        const float value = code_times_scale(q, r, c);
        ASSERT_EQ(f32.at(r, c), value) << format.name << ' ' << r << ' ' << c;
        expected_bf16.set(r, c, value);
        expected_f16.set(r, c, value);
      }
    EXPECT_EQ(bf16.bytes, expected_bf16.bytes) << format.name;
    EXPECT_EQ(f16.bytes, expected_f16.bytes) << format.name;
  }
}

TEST(Dequantize, quantizing_again_gives_the_same_bytes) {
  const Matrix m = gaussian(DType::f32, 8, 128);
  for (Format format : {Format::mxfp4, Format::mxfp8_e4m3, Format::mxfp6_e3m2}) {
    const BlockTensor once = quantize({.input = m.view(), .format = format});
    const Matrix back = test::decoded(once.view());
    const BlockTensor twice = quantize({.input = back.view(), .format = format});
    EXPECT_EQ(test::decoded(twice.view()).bytes, back.bytes) << info(format).name;
  }
}

TEST(Dequantize, writes_only_inside_a_strided_output) {
  const Matrix m = gaussian(DType::f32, 3, 64);
  const BlockTensor q = quantize({.input = m.view(), .format = Format::mxfp4});
  std::vector<float> wide(3 * 70, -7.0f);
  dequantize(q.view(), {wide.data(), DType::f32, 3, 64, 70});
  const Matrix expected = test::decoded(q.view());
  for (std::int64_t r = 0; r < 3; ++r)
    for (std::int64_t c = 0; c < 70; ++c)
      ASSERT_EQ(wide[static_cast<std::size_t>(r * 70 + c)], c < 64 ? expected.at(r, c) : -7.0f);
}

TEST(Dequantize, refuses_what_does_not_fit) {
  const Matrix m = gaussian(DType::f32, 2, 64);
  const BlockTensor q = quantize({.input = m.view(), .format = Format::nvfp4});
  Matrix out(DType::f32, 2, 64), narrow(DType::f32, 2, 32);
  const auto message = [](const std::function<void()>& body) {
    try {
      body();
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(message([&] { dequantize(q.view(), narrow.mutable_view()); }).find("2 x 32"),
            std::string::npos);
  BlockTensorView view = q.view();
  view.codes = view.codes.first(3);
  EXPECT_NE(message([&] { dequantize(view, out.mutable_view()); }).find("codes has 3"),
            std::string::npos);
  view = q.view();
  view.global_scale = NAN;
  EXPECT_NE(message([&] { dequantize(view, out.mutable_view()); }).find("global scale"),
            std::string::npos);
}

}  // namespace
}  // namespace microscale
