#include "reference/kv_rows.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "formats/elements.hpp"

namespace microscale {
namespace {

TEST(KvRows, hadamard_is_orthonormal_and_its_own_inverse) {
  std::vector<float> row(48), original(48);
  for (std::size_t i = 0; i < 48; ++i) original[i] = row[i] = std::sin(static_cast<float>(i) + 1);
  hadamard_runs(row.data(), 48, 16);
  for (int run = 0; run < 3; ++run)
    for (int j = 0; j < 16; ++j) {
      double sum = 0;
      for (int i = 0; i < 16; ++i)
        sum += (__builtin_popcount(static_cast<unsigned>(i & j)) % 2 ? -1 : 1) *
               static_cast<double>(original[static_cast<std::size_t>(16 * run + i)]);
      EXPECT_NEAR(row[static_cast<std::size_t>(16 * run + j)], sum / 4, 1e-6);
    }
  hadamard_runs(row.data(), 48, 16);
  for (std::size_t i = 0; i < 48; ++i) EXPECT_NEAR(row[i], original[i], 1e-6);
}

TEST(KvRows, keys_are_turned_then_centred_then_transformed) {
  constexpr std::int64_t d = 32, width = 8;
  std::vector<float> cos(3 * width / 2), sin(3 * width / 2), mean(2 * d), row(d), want(d);
  fill_rope_tables(100.0, 3, width, cos, sin);
  for (std::size_t i = 0; i < 2 * d; ++i) mean[i] = 0.125f * static_cast<float>(i);
  for (const bool interleaved : {false, true})
    for (const int hadamard : {0, 16}) {
      for (std::size_t i = 0; i < d; ++i) row[i] = want[i] = std::cos(static_cast<float>(i));
      AppendKvOptions o;
      o.cache.d = d;
      o.cache.k_mean = mean.data();
      o.cache.hadamard = hadamard;
      o.rope = {cos.data(), sin.data(), 3, width, interleaved};
      transform_key(o, 1, 2, row.data());
      for (std::size_t i = 0; i < 4; ++i) {
        float &x = want[interleaved ? 2 * i : i], &y = want[interleaved ? 2 * i + 1 : i + 4];
        const float c = cos[8 + i], s = sin[8 + i], x0 = x, y0 = y;
        x = std::fma(x0, c, -(y0 * s));
        y = std::fma(y0, c, x0 * s);
      }
      for (std::size_t i = 0; i < d; ++i) want[i] -= mean[d + i];
      if (hadamard) hadamard_runs(want.data(), d, 16);
      EXPECT_EQ(row, want);
    }
}

TEST(KvRows, the_mean_of_k_has_a_score_of_its_own) {
  const double q[] = {1, -2, 3};
  const float mean[] = {0.5f, 4, 2};
  EXPECT_EQ(mean_score(q, mean, 3, 0.25), 0.25 * (0.5 - 8 + 6));
}

TEST(KvRows, fp8_codes_are_nearest_and_saturate) {
  const std::vector<float> values{0.0f, -1.0f, 447.0f, 1000.0f, -INFINITY, NAN, 0x1p-10f, 3.1f};
  std::vector<std::uint8_t> codes(values.size());
  quantize_fp8(values.data(), 8, 1.0f, codes.data());
  const std::vector<float> want{0.0f, -1.0f, 448.0f, 448.0f, -448.0f, NAN, 0.0f, 3.0f};
  for (std::size_t i = 0; i < 8; ++i) {
    const float got = E4M3::decode(codes[i]);
    EXPECT_TRUE(got == want[i] || (std::isnan(got) && std::isnan(want[i]))) << i << ": " << got;
  }
  quantize_fp8(values.data(), 8, 0.5f, codes.data());
  EXPECT_EQ(E4M3::decode(codes[7]), 1.5f);
}

}  // namespace
}  // namespace microscale
