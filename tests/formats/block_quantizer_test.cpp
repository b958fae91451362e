// One block at a time: the amax cases on which tools disagree, searches against exhaustive ones in
// double precision, and digests of every rule and rounding over all BF16 values.
#include "formats/block_quantizer.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <random>

#include "support/value_table.hpp"

namespace microscale {
namespace {

constexpr auto no_index = [](int i) { return static_cast<std::uint64_t>(i); };

struct Encoded {
  std::uint8_t scale;
  std::array<std::uint8_t, 32> codes;
};

template <class Codec = E2M1>
Encoded encode_mx(const std::array<float, 32>& values, const Numerics& numerics) {
  Encoded e{};
  e.scale =
      quantize_block<Codec, 32, true>(values.data(), nullptr, {numerics}, no_index, e.codes.data());
  return e;
}

Encoded encode_nvfp4(const std::array<float, 16>& values, const Numerics& numerics, float g,
                     const float* weights = nullptr) {
  Encoded e{};
  e.scale = quantize_block<E2M1, 16, false>(
      values.data(), weights, {numerics, g, nvfp4_scale_factor(g)}, no_index, e.codes.data());
  return e;
}

Numerics with_rule(ScaleRule rule) {
  Numerics n;
  n.scale_rule = rule;
  return n;
}

TEST(BlockQuantizer, every_amax_case_gives_a_valid_block_under_every_mx_rule) {
  const float top = std::numeric_limits<float>::max();
  const float cases[] = {0.0f,
                         -0.0f,
                         0x1p-149f,
                         0x1p-127f,
                         0x1p-126f,
                         0x1.8p-124f,
                         1.5f,
                         1.75f,
                         6.0f,
                         std::nextafter(6.0f, 7.0f),
                         7.0f,
                         std::nextafter(7.0f, 8.0f),
                         8.0f,
                         448.0f,
                         std::nextafter(448.0f, 449.0f),
                         480.0f,
                         496.0f,
                         511.0f,
                         top,
                         -top};
  for (float amax : cases) {
    std::array<float, 32> values{};
    for (std::size_t i = 0; i < 32; ++i) values[i] = amax * static_cast<float>(i) / 31.0f;
    for (ScaleRule rule : scale_rules(Format::mxfp4)) {
      const Encoded fp4 = encode_mx<E2M1>(values, with_rule(rule));
      const Encoded fp8 = encode_mx<E4M3>(values, with_rule(rule));
      const Encoded e5m2 = encode_mx<E5M2>(values, with_rule(rule));
      EXPECT_LE(fp4.scale, e8m0_max) << to_string(rule) << ' ' << amax;
      EXPECT_EQ(fp4.scale >= fp8.scale || rule == ScaleRule::amax_ceil, true);
      for (std::size_t i = 0; i < 32; ++i) {
        EXPECT_FALSE(E4M3::is_nan(fp8.codes[i]));
        EXPECT_LE(e5m2.codes[i] & 0x7F, E5M2::max_code);
        EXPECT_EQ(std::signbit(values[i]), (fp4.codes[i] & 8) != 0);
      }
    }
  }
}

TEST(BlockQuantizer, one_nan_one_infinity_and_all_nan) {
  std::array<float, 32> one_nan{};
  one_nan.fill(1.5f);
  std::array<float, 32> one_inf = one_nan, all_nan{};
  one_nan[7] = NAN;
  one_inf[7] = -INFINITY;
  all_nan.fill(NAN);
  Numerics n = with_rule(ScaleRule::floor);
  EXPECT_EQ(encode_mx(one_nan, n).scale, 255);
  EXPECT_EQ(encode_mx<E4M3>(one_nan, n).codes[0], 0x7F);
  EXPECT_EQ(encode_mx(all_nan, n).scale, 255);
  EXPECT_EQ(encode_mx(one_inf, n).scale, 254);
  EXPECT_EQ(encode_mx(one_inf, n).codes[7], 0xF);
  EXPECT_EQ(encode_mx(one_inf, n).codes[0], 0x0);
  n.nan = NanPolicy::drop;
  EXPECT_EQ(encode_mx(one_nan, n).scale, 125);
  EXPECT_EQ(encode_mx(one_nan, n).codes[7], 0x7);
  EXPECT_EQ(encode_mx(one_nan, n).codes[0], 0x7);
  EXPECT_EQ(encode_mx(all_nan, n).scale, 0);
  n.inf = InfPolicy::nan_block;
  EXPECT_EQ(encode_mx(one_inf, n).scale, 255);
}

// An independent search: every candidate's squared error in double precision.
double block_error_in_double(const std::array<float, 16>& values, std::uint8_t scale, float g,
                             const float* weights) {
  const test::ValueTable table{0, 0.5, 1, 1.5, 2, 3, 4, 6};
  const float step = UE4M3::decode(scale) * g;
  double sum = 0;
  for (std::size_t i = 0; i < 16; ++i) {
    const int code =
        test::model_code(table, values[i] * nvfp4_multiplier(scale, g), Rounding::nearest_even);
    const double restored = std::copysign(table[static_cast<std::size_t>(code)] * step, values[i]);
    sum += (weights ? weights[i] : 1.0) * (values[i] - restored) * (values[i] - restored);
  }
  return sum;
}

TEST(BlockQuantizer, nvfp4_full_search_finds_the_least_error_and_the_window_almost_always) {
  std::mt19937 generator(11);
  std::normal_distribution<float> normal(0, 1);
  std::uniform_real_distribution<float> positive(0, 1);
  int window_misses = 0;
  for (int round = 0; round < 400; ++round) {
    std::array<float, 16> values, weights;
    for (float& v : values) v = normal(generator);
    for (float& w : weights) w = positive(generator);
    const float* importance = round % 2 ? weights.data() : nullptr;
    const float g = std::exp2(-6.0f + 0.3f * static_cast<float>(round % 7));
    double least = INFINITY;
    for (int code = 1; code <= 126; ++code)
      least = std::min(
          least, block_error_in_double(values, static_cast<std::uint8_t>(code), g, importance));
    const auto error = [&](ScaleRule rule) {
      const Encoded e = encode_nvfp4(values, with_rule(rule), g, importance);
      return block_error_in_double(values, e.scale, g, importance);
    };
    EXPECT_LE(error(ScaleRule::full), least * (1 + 1e-5));
    window_misses += error(ScaleRule::search) > least * (1 + 1e-5);
  }
  EXPECT_LT(window_misses, 30);  // unweighted Gaussian blocks: none to speak of
}

TEST(BlockQuantizer, mx_search_takes_the_better_of_two_and_the_lower_on_a_tie) {
  std::array<float, 32> values{};
  values[0] =
      6.5f;  // floor saturates by 0.5; the next scale gives 6 (an error of 0.5 as well), rest 0
  EXPECT_EQ(encode_mx(values, with_rule(ScaleRule::search)).scale, 127);
  values[0] = 7.5f;  // 1.5 against 0.5
  EXPECT_EQ(encode_mx(values, with_rule(ScaleRule::search)).scale, 128);
  values.fill(0.25f * 3);
  values[0] = 6.5f;  // exact under the lower scale, not under the upper
  EXPECT_EQ(encode_mx(values, with_rule(ScaleRule::search)).scale, 127);
}

TEST(BlockQuantizer, four_over_six_prefers_six_on_a_tie) {
  std::array<float, 16> zeros_but_one{};
  zeros_but_one[0] = 6.0f;  // exact both ways: amax/6 = 1 with code 6, amax/4 = 1.5 with code 4
  EXPECT_EQ(encode_nvfp4(zeros_but_one, with_rule(ScaleRule::four_over_six), 1.0f).scale,
            UE4M3::encode(1.0f, Rounding::nearest_even));
  std::array<float, 16> three_quarters{};
  three_quarters[0] = 6.0f;
  for (std::size_t i = 1; i < 16; ++i) three_quarters[i] = 4.5f;  // 3 x 1.5: exact only over 4
  EXPECT_EQ(encode_nvfp4(three_quarters, with_rule(ScaleRule::four_over_six), 1.0f).scale,
            UE4M3::encode(1.5f, Rounding::nearest_even));
}

TEST(BlockQuantizer, e4m3_scale_edges) {
  const auto scale_for = [](float amax, float g) {
    std::array<float, 16> values{};
    values[0] = amax;
    return int{encode_nvfp4(values, with_rule(ScaleRule::nearest), g).scale};
  };
  EXPECT_EQ(scale_for(6 * 0x1p-10f, 1), 0);  // half the smallest subnormal: ties to even
  EXPECT_EQ(scale_for(6 * 0x1.01p-10f, 1), 1);
  EXPECT_EQ(scale_for(6 * 0x1p-9f, 1), 1);
  EXPECT_EQ(scale_for(6 * 0x1.Fp-7f, 1), 8);  // carries into the normal range
  EXPECT_EQ(scale_for(6 * 240.0f, 1), 0x77);
  EXPECT_EQ(scale_for(6 * 256.0f, 1), 0x78);
  EXPECT_EQ(scale_for(6 * 300.0f, 1), 0x79);
  EXPECT_EQ(scale_for(6 * 448.0f, 1), 0x7E);
  EXPECT_EQ(scale_for(6 * 9999.0f, 1), 0x7E);
}

// Each BF16 value in a block with a fixed partner, so that both act as the largest and as the
// smaller one.
template <class Codec>
std::uint64_t digest_mx(ScaleRule rule, Rounding rounding) {
  test::Digest digest;
  Numerics n = with_rule(rule);
  n.rounding = rounding;
  for (unsigned bits = 0; bits < 65536; bits += 2) {
    std::array<float, 32> values{};
    values[0] = bf16_to_float(static_cast<std::uint16_t>(bits));
    values[1] = bf16_to_float(static_cast<std::uint16_t>(bits + 1)) * 0.37f;
    values[2] = -1.3f;
    const Encoded e = encode_mx<Codec>(values, n);
    digest.add(e.scale);
    for (std::size_t i = 0; i < 3; ++i) digest.add(e.codes[i]);
  }
  return digest.value();
}

TEST(BlockQuantizer, outputs_over_all_bf16_have_their_pinned_digests) {
  struct Row {
    ScaleRule rule;
    std::uint64_t e2m1, e4m3, e5m2;
  };
  constexpr Row rows[] = {
#include "formats/block_digests.inc"
  };
  EXPECT_EQ(std::size(rows), scale_rules(Format::mxfp4).size());
  for (const Row& row : rows) {
    EXPECT_EQ(digest_mx<E2M1>(row.rule, Rounding::nearest_even), row.e2m1) << to_string(row.rule);
    EXPECT_EQ(digest_mx<E4M3>(row.rule, Rounding::stochastic), row.e4m3) << to_string(row.rule);
    EXPECT_EQ(digest_mx<E5M2>(row.rule, Rounding::nearest_away), row.e5m2) << to_string(row.rule);
  }
}

}  // namespace
}  // namespace microscale
