// What is refused, what is mended and said.
#include "ops/prepared_hessian.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "microscale/error.hpp"
#include "support/hessian_oracle.hpp"

namespace microscale {
namespace {

using test::correlated_hessian;
using test::diagonal_hessian;

HessianOptions options_of(const std::vector<float>& hessian, std::int64_t cols,
                          HessianMethod method = HessianMethod::gptq) {
  HessianOptions options;
  options.hessian = hessian;
  options.cols = cols;
  options.method = method;
  return options;
}

std::string refusal(const HessianOptions& options, ErrorCode code = ErrorCode::bad_input) {
  try {
    PreparedHessian prepared(options);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    return error.what();
  }
  return "";
}

bool says(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(PreparedHessian, names_what_is_wrong_with_a_matrix) {
  std::vector<float> h = correlated_hessian(160, 300);
  const auto with = [&](std::size_t i, std::size_t j, float value) {
    std::vector<float> broken = h;
    broken[i * 160 + j] = value;
    return refusal(options_of(broken, 160));
  };
  EXPECT_TRUE(says(with(150, 20, std::numeric_limits<float>::quiet_NaN()), "nan at (20, 150)"));
  EXPECT_TRUE(says(with(3, 70, std::numeric_limits<float>::infinity()), "inf at (3, 70)"));
  EXPECT_TRUE(says(with(100, 100, -1), "-1 on its diagonal, at column 100"));
  EXPECT_TRUE(says(with(7, 8, 1000), "not symmetric: 1000 at (7, 8)"));
  EXPECT_EQ(refusal(options_of(h, 160)), "");
}

TEST(PreparedHessian, names_options_that_do_not_fit) {
  const std::vector<float> h = correlated_hessian(32, 100);
  const auto refuse = [&](auto&& change) {
    HessianOptions options = options_of(h, 32);
    change(options);
    return refusal(options, ErrorCode::invalid_argument);
  };
  EXPECT_TRUE(says(refuse([](auto& o) { o.cols = 30; }), "30 columns are no multiple"));
  EXPECT_TRUE(says(refuse([](auto& o) { o.cols = 64; }), "1024 numbers for 64 columns"));
  EXPECT_TRUE(says(refuse([](auto& o) { o.shrink = 1.5; }), "shrink 1.5"));
  EXPECT_TRUE(says(refuse([](auto& o) { o.damping = -1; }), "damping -1"));
  EXPECT_TRUE(says(refuse([](auto& o) { o.format = Format::mxint8; }), "format mxint8"));
}

TEST(PreparedHessian, adds_damping_until_the_factorization_succeeds) {
  // Off the diagonal larger than on it: not positive definite before the diagonal has doubled.
  std::vector<float> h(32 * 32, 0.0f);
  for (std::size_t k = 0; k < 32; ++k) h[k * 33] = 1.0f;
  h[1] = h[32] = 1.5f;
  for (const HessianMethod method : {HessianMethod::gptq, HessianMethod::block_hessian}) {
    HessianOptions options = options_of(h, 32, method);
    options.shrink = 0;
    EXPECT_NEAR(PreparedHessian(options).damping(), 1.0, 1e-9) << to_string(method);
    options.shrink = 1;
    EXPECT_EQ(PreparedHessian(options).damping(), 0.01);
    options.shrink = options.damping = 0;
    EXPECT_NEAR(PreparedHessian(options).damping(), 1.0, 1e-9) << "from none";
  }
  h[1] = h[32] = 1000.0f;
  EXPECT_TRUE(says(refusal(options_of(h, 32)), "not positive definite"));
}

TEST(PreparedHessian, blocks_with_large_inputs_come_first_and_dead_columns_count_as_the_mean) {
  std::vector<float> diagonal(64, 1.0f);
  for (std::size_t k = 32; k < 48; ++k) diagonal[k] = 3.0f;
  diagonal[0] = diagonal[1] = 0;
  const PreparedHessian prepared(options_of(diagonal_hessian(diagonal), 64));
  EXPECT_EQ(prepared.dead_columns(), 2);
  EXPECT_EQ(prepared.parts().order, (std::vector<std::int64_t>{2, 0, 1, 3}));
  EXPECT_FLOAT_EQ(prepared.parts().pivots[16], prepared.parts().pivots[17]);
  EXPECT_GT(prepared.parts().pivots[16], prepared.parts().pivots[18]);
}

TEST(PreparedHessian, is_the_same_at_any_number_of_threads) {
  const std::vector<float> h = correlated_hessian(304, 200);
  const PreparedHessian one(options_of(h, 304), {.threads = 1}),
      many(options_of(h, 304), {.threads = 5});
  EXPECT_EQ(one.parts().factor, many.parts().factor);
  EXPECT_EQ(one.parts().pivots, many.parts().pivots);
}

TEST(PreparedHessian, bytes_are_what_is_kept) {
  for (const Format format : {Format::nvfp4, Format::mxfp4})
    for (const HessianMethod method : {HessianMethod::gptq, HessianMethod::block_hessian}) {
      HessianOptions options;
      const std::vector<float> h = correlated_hessian(64, 100);
      options.hessian = h;
      options.cols = 64;
      options.format = format;
      options.method = method;
      const PreparedHessian prepared(options);
      const auto& parts = prepared.parts();
      EXPECT_EQ(hessian_bytes(64, format, method).kept,
                static_cast<std::int64_t>(
                    4 * (parts.factor.size() + parts.pivots.size() + parts.hessian_blocks.size()) +
                    8 * parts.order.size()));
    }
  EXPECT_LT(hessian_bytes(28672, Format::nvfp4, HessianMethod::gptq).making, 3.4e9);
}

TEST(PreparedHessian, shrinks_more_where_tokens_are_few) {
  EXPECT_EQ(hessian_shrink(64 * 576, 576), 0.1);
  EXPECT_EQ(hessian_shrink(64 * 576 - 1, 576), 0.3);
}

}  // namespace
}  // namespace microscale
