// The public side, on machines with and without a GPU.
#include <gtest/gtest.h>

#include <cmath>

#include "cuda/device/device.hpp"
#include "microscale/cuda.hpp"
#include "operations_support.hpp"
#include "support/matrices.hpp"

namespace microscale {
namespace {

TEST(CudaApi, says_why_there_is_no_gpu) {
  if (cuda::device_count() > 0) {
    EXPECT_EQ(cuda::unavailable_reason(), "");
    EXPECT_NO_THROW(cuda::load_kernels());
    return;
  }
  EXPECT_NE(cuda::unavailable_reason(), "");
  const auto matrix = test::gaussian(DType::f32, 4, 64);
  BlockTensor output(BlockShape{4, 64, Format::mxfp4});
  for (int i = 0; i < 2; ++i)  // the second time says the same: no error stays behind
    cuda::test::expect_error(
        ErrorCode::unsupported, "no GPU to run on: " + cuda::unavailable_reason(), [&] {
          quantize_into({.input = on_device(matrix.view()), .format = Format::mxfp4},
                        output.codes(), output.scales(), {.backend = Backend::cuda});
        });
  cuda::test::expect_error(ErrorCode::unsupported, "no GPU", [] { cuda::device_name(); });
  cuda::test::expect_error(ErrorCode::unsupported, "no GPU", [] { cuda::select_device(0); });
  cuda::test::expect_error(ErrorCode::unsupported, "no GPU", [] { cuda::load_kernels(); });
  cuda::test::expect_error(ErrorCode::unsupported, "no GPU", [] { cuda::current_device(); });
  cuda::test::expect_error(ErrorCode::unsupported, "no GPU", [] { cuda::is_capturing(); });
}

TEST(CudaApi, operations_without_a_device_form_are_refused) {
  const auto matrix = test::gaussian(DType::f32, 4, 64);
  cuda::test::expect_error(ErrorCode::unsupported, "call quantize_into",
                           [&] { quantize({.input = matrix.view()}, {.backend = Backend::cuda}); });
  cuda::test::expect_error(ErrorCode::unsupported, "abs_max: backend cuda has no such operation",
                           [&] { abs_max(matrix.view(), {.backend = Backend::cuda}); });
}

TEST(CudaApi, is_chosen_on_request_only) {
  for (Backend backend : available_backends()) EXPECT_NE(backend, Backend::cuda);
  EXPECT_EQ(to_string(Backend::cuda), "cuda");
}

}  // namespace
}  // namespace microscale
