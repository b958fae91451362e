// The producers on a host against double arithmetic, and the order of the RMSNorm sum over long
// rows.
#include "reference/producers.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "formats/producers.hpp"
#include "support/matrices.hpp"

namespace microscale {
namespace {

std::vector<float> room(std::int64_t rows, std::int64_t cols) {
  return std::vector<float>(static_cast<std::size_t>(rows * cols));
}

TEST(ReferenceProducers, silu_mul_of_rows_in_the_middle) {
  for (DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    const test::Matrix gate = test::gaussian(dtype, 5, 48, 1, 3.0f),
                       up = test::gaussian(dtype, 5, 48, 2, 1.0f);
    std::vector<float> out = room(2, 48);
    silu_mul_rows({gate.view(), up.view(), {}}, 2, 2, out.data());
    for (std::int64_t i = 0; i < 96; ++i) {
      const double g = gate.at(2 + i / 48, i % 48), u = up.at(2 + i / 48, i % 48);
      const double wanted = g / (1 + std::exp(-g)) * u;
      EXPECT_NEAR(out[static_cast<std::size_t>(i)], wanted, std::fabs(wanted) * 0x1p-20) << i;
    }
  }
}

TEST(ReferenceProducers, rms_norm_with_weight_and_without) {
  for (std::int64_t cols : {16, 48, 1000, 20000, 40000}) {
    const test::Matrix x = test::gaussian(DType::bf16, 2, cols, 3, 5.0f),
                       w = test::gaussian(DType::bf16, 1, cols, 4, 1.0f);
    for (bool weighted : {false, true}) {
      std::vector<float> out = room(1, cols);
      rms_norm_rows({.input = x.view(),
                     .weight = weighted ? w.bytes.data() : nullptr,
                     .epsilon = 1e-3f,
                     .output = {}},
                    1, 1, out.data());
      double sum = 0;
      for (std::int64_t c = 0; c < cols; ++c) sum += double{x.at(1, c)} * x.at(1, c);
      const double multiplier = 1 / std::sqrt(sum / static_cast<double>(cols) + 1e-3);
      for (std::int64_t c = 0; c < cols; ++c) {
        const double wanted = x.at(1, c) * multiplier * (weighted ? w.at(0, c) : 1);
        ASSERT_NEAR(out[static_cast<std::size_t>(c)], wanted, std::fabs(wanted) * 1e-6) << c;
      }
    }
  }
}

TEST(ReferenceProducers, rms_norm_adds_its_sum_as_a_tree_of_neighbours) {
  const std::int64_t cols = 32 * 512 + 96;  // a segment, and three groups of a second
  const test::Matrix x = test::gaussian(DType::f32, 1, cols, 5, 1.0f);
  std::vector<float> out = room(1, cols), groups;
  rms_norm_rows({.input = x.view(), .epsilon = 0, .output = {}}, 0, 1, out.data());
  for (std::int64_t first = 0; first < cols; first += 32)
    groups.push_back(rms_group_sum([&](int i) { return x.at(0, first + i); }));
  const auto tree = [&](auto&& self, std::size_t first, std::size_t count) -> float {
    if (count == 1) return groups[first];
    return self(self, first, count / 2) + self(self, first + count / 2, count / 2);
  };
  const float total = tree(tree, 0, 512) + (tree(tree, 512, 2) + groups[514]);
  EXPECT_EQ(out[7], rms_value(x.at(0, 7), rms_multiplier(total, rms_inverse_count(cols), 0), 1.0f));
}

TEST(ReferenceProducers, rms_norm_norms_the_sum_that_it_stores) {
  const test::Matrix x = test::gaussian(DType::bf16, 3, 64, 6, 2.0f),
                     r = test::gaussian(DType::bf16, 3, 64, 7, 2.0f);
  test::Matrix sum(DType::bf16, 3, 64);
  std::vector<float> out = room(3, 64), again = room(3, 64);
  RmsNormOptions options{
      .input = x.view(), .residual = r.view(), .sum = sum.mutable_view(), .output = {}};
  rms_norm_rows(options, 0, 3, out.data());
  for (std::int64_t i = 0; i < 192; ++i) {
    const float exact = x.at(i / 64, i % 64) + r.at(i / 64, i % 64);
    EXPECT_EQ(sum.at(i / 64, i % 64), bf16_to_float(float_to_bf16(exact)));
  }
  rms_norm_rows({.input = sum.view(), .output = {}}, 0, 3, again.data());
  EXPECT_EQ(out, again);
}

TEST(ReferenceProducers, hadamard_is_its_own_inverse_and_keeps_length) {
  for (int order : {16, 32, 64, 128}) {
    const test::Matrix x = test::gaussian(DType::f32, 2, 256, 8, 1.0f);
    test::Matrix once(DType::f32, 2, 256);
    std::vector<float> out = room(2, 256), back = room(2, 256);
    hadamard_rows({.input = x.view(), .order = order, .output = {}}, 0, 2, out.data());
    double before = 0, after = 0;
    for (std::int64_t i = 0; i < 512; ++i) {
      once.set(i / 256, i % 256, out[static_cast<std::size_t>(i)]);
      before += double{x.at(i / 256, i % 256)} * x.at(i / 256, i % 256);
      after += double{out[static_cast<std::size_t>(i)]} * out[static_cast<std::size_t>(i)];
    }
    EXPECT_NEAR(after / before, 1.0, 1e-6);
    hadamard_rows({.input = once.view(), .order = order, .output = {}}, 0, 2, back.data());
    for (std::int64_t i = 0; i < 512; ++i)
      EXPECT_NEAR(back[static_cast<std::size_t>(i)], x.at(i / 256, i % 256), 3e-6) << order;
  }
}

TEST(ReferenceProducers, hadamard_negates_the_same_places_of_every_run) {
  test::Matrix x(DType::f32, 1, 128);
  for (int i = 0; i < 128; ++i)
    x.set(0, i, i == 37 || i == 64 + 37 ? 8.0f : 0.0f);  // place 5 of word 1
  std::vector<float> plain = room(1, 128), negated = room(1, 128);
  HadamardOptions options{.input = x.view(), .order = 64, .output = {}};
  hadamard_rows(options, 0, 1, plain.data());
  options.negated = {0, 1u << 5, 0xFFFFFFFFu,
                     0xFFFFFFFFu};  // the last two words are not of order 64
  hadamard_rows(options, 0, 1, negated.data());
  for (std::size_t i = 0; i < 128; ++i) EXPECT_EQ(negated[i], -plain[i]) << i;
  EXPECT_EQ(std::fabs(plain[0]), 1.0f);
}

TEST(ReferenceProducers, nans_are_positive_whatever_made_them) {
  std::vector<float> x(16, 0.0f);
  x[0] = INFINITY;
  x[1] = -INFINITY;  // x86 gives infinity minus infinity a sign
  std::vector<float> out(16);
  HadamardOptions options;
  options.input = {x.data(), DType::f32, 1, 16, 16};
  options.order = 16;
  hadamard_rows(options, 0, 1, out.data());
  int nans = 0;
  for (float value : out) {
    nans += std::isnan(value);
    EXPECT_FALSE(std::isnan(value) && std::signbit(value));
  }
  EXPECT_GT(nans, 0);
}

}  // namespace
}  // namespace microscale
