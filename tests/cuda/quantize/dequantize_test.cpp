#include <gtest/gtest.h>

#include <memory>

#include "cuda/operations.hpp"
#include "cuda/quantize/args.hpp"
#include "fake_device.hpp"
#include "operations_support.hpp"

namespace microscale::cuda {
namespace {

using test::expect_error;

class CudaDequantize : public ::testing::Test {
 protected:
  void call(Layout layout, std::int64_t output_stride) {
    const BlockShape shape{4, 64, Format::nvfp4, BlockAxis::cols, layout};
    BlockTensorView view{shape, {memory->bytes, 128}, {memory->bytes + 1024, 512}};
    view.scales = view.scales.first(static_cast<std::size_t>(shape.scale_bytes()));
    view.global_scale = GlobalScale::on_device(global);
    dequantize(device, view, {output->bytes, DType::bf16, 4, 64, output_stride}, nullptr);
  }
  test::FakeDevice device{10, 0};
  std::unique_ptr<test::Aligned> memory = std::make_unique<test::Aligned>();
  std::unique_ptr<test::Aligned> output = std::make_unique<test::Aligned>();
  const float* global = reinterpret_cast<const float*>(memory->bytes + 4096);
};

TEST_F(CudaDequantize, passes_layout_strides_and_global_scale) {
  if (kernel_images().empty()) GTEST_SKIP() << "built without nvcc";
  call(Layout::tiled_128x4, 72);
  ASSERT_EQ(device.launches.size(), 1u);
  EXPECT_EQ(device.launches[0].name, "dequantize_nvfp4_bf16");
  const auto args = device.launches[0].as<DequantizeArgs>();
  EXPECT_EQ(args.global_scale, global);
  EXPECT_EQ(args.row_stride, 72);
  EXPECT_EQ(args.tiled, 1);
}

TEST_F(CudaDequantize, refuses_misaligned_rows_and_a_missing_global_scale) {
  expect_error(ErrorCode::invalid_argument, "a multiple of 8 elements",
               [&] { call(Layout::row_major, 66); });
  global = nullptr;
  expect_error(ErrorCode::invalid_argument, "the global scale is null",
               [&] { call(Layout::row_major, 64); });
}

}  // namespace
}  // namespace microscale::cuda
