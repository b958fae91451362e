// Against the double sum it stands for.
#include <gtest/gtest.h>

#include "microscale/error.hpp"
#include "microscale/hessian.hpp"
#include "microscale/quantize.hpp"
#include "support/hessian_oracle.hpp"
#include "support/present.hpp"

namespace microscale {
namespace {

TEST(OutputError, is_the_quadratic_form_of_errors_and_weights) {
  for (const std::int64_t cols : {16, 48, 100, 160}) {
    const test::Matrix w = test::gaussian(DType::bf16, 37, cols, 11);
    const std::vector<float> h = test::correlated_hessian(cols, 200);
    QuantizeOptions options;
    options.input = w.view();
    options.format = Format::mxfp4;
    options.padding = Padding::zero;
    const BlockTensor q = quantize(options);
    const test::Matrix values = test::decoded(q.view());
    const double wanted = test::relative_output_error(
        w, [&](std::int64_t r, std::int64_t k) { return double(values.at(r, k)); }, h);
    const OutputError first = output_error(w.view(), q.view(), h, {.threads = 1});
    EXPECT_NEAR(first.relative(), wanted, 1e-5 * wanted) << cols;
    for (const Backend backend : test::host_backends()) {
      const OutputError again = output_error(w.view(), q.view(), h, {backend, 3});
      EXPECT_EQ(again.error, first.error) << to_string(backend);
      EXPECT_EQ(again.power, first.power) << to_string(backend);
    }
  }
}

TEST(OutputError, refuses_what_does_not_fit_together) {
  const test::Matrix w = test::gaussian(DType::f32, 4, 32),
                     wider = test::gaussian(DType::f32, 4, 64);
  QuantizeOptions options;
  options.input = w.view();
  const BlockTensor q = quantize(options);
  const std::vector<float> h = test::correlated_hessian(32, 10), small(16);
  EXPECT_THROW(output_error(wider.view(), q.view(), h), Error);
  EXPECT_THROW(output_error(w.view(), q.view(), small), Error);
}

}  // namespace
}  // namespace microscale
