// GPTQ by the reference against the oracle in FP64.
#include <gtest/gtest.h>

#include <cmath>

#include "microscale/hessian.hpp"
#include "support/hessian_oracle.hpp"

namespace microscale {
namespace {

TEST(ReferenceHessianKernels, gptq_has_the_values_of_the_oracle) {
  const Context reference{.backend = Backend::reference};
  const test::Matrix w = test::gaussian(DType::f32, 20, 160, 3);
  const std::vector<float> h = test::correlated_hessian(160, 600);
  for (const Format format : {Format::nvfp4, Format::mxfp4}) {
    HessianOptions options;
    options.hessian = h;
    options.cols = 160;
    options.format = format;
    const PreparedHessian hessian(options, reference);
    const BlockTensor q =
        quantize_with_hessian({.input = w.view(), .hessian = &hessian}, reference);
    const test::Matrix values = test::decoded(q.view());
    const test::Doubles wanted =
        test::gptq_in_fp64(w, h, format, q.global_scale, options.shrink, options.damping);
    const auto want = [&](std::int64_t r, std::int64_t k) {
      return wanted[std::size_t(r)][std::size_t(k)];
    };
    for (std::int64_t r = 0; r < w.rows; ++r)
      for (std::int64_t k = 0; k < w.cols; ++k)
        ASSERT_NEAR(double(values.at(r, k)), want(r, k), 1e-6 * std::fabs(want(r, k)))
            << info(format).name << " row " << r << " column " << k;
    const double error = test::relative_output_error(w, want, h);
    EXPECT_NEAR(output_error(w.view(), q.view(), h).relative(), error, 1e-6 * error);
  }
}

}  // namespace
}  // namespace microscale
