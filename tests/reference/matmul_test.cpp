// The oracle itself: its elements against the codecs, its sums by hand.
#include "reference/matmul.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "formats/e8m0.hpp"
#include "formats/elements.hpp"

namespace microscale {
namespace {

TEST(ReferenceMatmul, every_code_under_every_scale_is_its_exact_value) {
  for (const FormatInfo& format : all_formats()) {
    for (int s = 0; s < 256; ++s) {
      for (int c = 0; c < 256; ++c) {
        const std::vector<std::uint8_t> codes(32, static_cast<std::uint8_t>(c));
        const std::uint8_t scales[2] = {0, static_cast<std::uint8_t>(s)};
        MatmulRows rows{.data = codes.data(), .stride = 32, .scales = scales, .scale_stride = 0};
        rows.format = format.format;
        rows.scales = scales + 1;
        const int code = format.code_bits == 8 ? c : c >> 4;  // element 1: the high nibble
        const double value = with_codec(format.element, [&](auto codec) {
          return decltype(codec)::decode(static_cast<std::uint8_t>(code));
        });
        double scale = 0;
        if (format.e8m0_scale)
          scale = s == 255 ? NAN : std::ldexp(1.0, s - 127);
        else
          scale = UE4M3::decode(static_cast<std::uint8_t>(s));
        const double got = matmul_element(rows, 0, 1), wanted = value * scale;
        if (std::isnan(wanted))
          EXPECT_TRUE(std::isnan(got)) << format.name << ' ' << s << ' ' << c;
        else
          ASSERT_EQ(got, wanted) << format.name << ' ' << s << ' ' << c;
      }
    }
  }
}

// One row of a against `n` rows of b, all MXFP4 with scale 1.
std::vector<float> multiply(const std::vector<float>& a, const std::vector<std::uint8_t>& codes,
                            const std::vector<std::uint8_t>& scales, double factor = 1,
                            const float* bias = nullptr) {
  const auto k = static_cast<std::int64_t>(a.size());
  MatmulProduct product;
  product.a.data = reinterpret_cast<const std::uint8_t*>(a.data());
  product.a.stride = k * 4;
  product.m = 1;
  product.n = static_cast<std::int64_t>(codes.size()) * 2 / k;
  product.k = k;
  product.factor = factor;
  product.bias = bias;
  std::vector<float> output(static_cast<std::size_t>(product.n), -1.0f);
  std::vector<double> work(static_cast<std::size_t>(reference_matmul.workspace_bytes(product)) /
                           sizeof(double));
  MatmulTile tile;
  tile.rows = 1;
  tile.cols = product.n;
  tile.b.data = codes.data();
  tile.b.stride = k / 2;
  tile.b.scales = scales.data();
  tile.b.scale_stride = k / 32;
  tile.output = output.data();
  tile.output_stride = product.n;
  tile.workspace = work.data();
  reference_matmul.multiply(product, tile);
  return output;
}

TEST(ReferenceMatmul, sums_in_double_then_one_rounding) {
  std::vector<float> a(32, 0.0f);
  a[0] = 1e30f;
  a[1] = 3.0f;
  a[2] = -1e30f;
  const std::vector<std::uint8_t> ones(16, 0x22);  // 1.0 everywhere
  EXPECT_EQ(multiply(a, ones, {127})[0], 0.0f) << "1e30 + 3 is 1e30 in double, too";
  a[0] = 0x1p40f;
  a[2] = -0x1p40f;
  EXPECT_EQ(multiply(a, ones, {127})[0], 3.0f) << "FP32 sums would have lost the 3";
  const float bias = 0.5f;
  EXPECT_EQ(multiply(a, ones, {127}, 2.0, &bias)[0], 6.5f);
  EXPECT_EQ(multiply(a, ones, {128}, 0.25)[0], 1.5f);
}

TEST(ReferenceMatmul, scales_at_both_ends_and_specials) {
  std::vector<float> a(32, 0.0f);
  a[5] = 0x1p-120f;
  const std::vector<std::uint8_t> sixes(16, 0x77);
  EXPECT_EQ(multiply(a, sixes, {254})[0], 6.0f * 0x1p7f) << "6 * 2^127 alone would overflow FP32";
  a[5] = 0x1p120f;
  EXPECT_EQ(multiply(a, sixes, {0})[0], 6.0f * 0x1p-7f);
  EXPECT_TRUE(std::isnan(multiply(a, sixes, {255})[0]));
  a[5] = INFINITY;
  EXPECT_EQ(multiply(a, sixes, {0})[0], INFINITY);
  EXPECT_TRUE(std::isnan(multiply(a, std::vector<std::uint8_t>(16, 0x00), {127})[0])) << "0 * inf";
  a[5] = NAN;
  EXPECT_TRUE(std::isnan(multiply(a, sixes, {127})[0]));
}

}  // namespace
}  // namespace microscale
