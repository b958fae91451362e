// What the fused operations tell the device, and what they refuse, without a GPU.
#include <gtest/gtest.h>

#include <memory>

#include "cuda/operations.hpp"
#include "cuda/quantize/fused_args.hpp"
#include "fake_device.hpp"
#include "operations_support.hpp"

namespace microscale::cuda {
namespace {

using test::expect_error;

class CudaFused : public ::testing::Test {
 protected:
  CudaFused() { use(Format::mxfp4, ScaleRule::floor); }
  void use(Format format, ScaleRule rule, Layout layout = Layout::row_major) {
    output.format = format;
    output.numerics.scale_rule = rule;
    output.layout = layout;
    const BlockShape shape{4, 64, format, BlockAxis::cols, layout};
    output.codes = {memory->bytes, static_cast<std::size_t>(shape.code_bytes())};
    output.scales = {memory->bytes + 4096, static_cast<std::size_t>(shape.scale_bytes())};
  }
  TensorView matrix(int which) const {
    return {input->bytes + which * 8192, DType::bf16, 4, 64, 72};
  }
  MutableTensorView writable(int which) {
    return {input->bytes + which * 8192, DType::bf16, 4, 64, 72};
  }
  test::FakeDevice device{9, 0};
  std::unique_ptr<test::Aligned> input = std::make_unique<test::Aligned>();
  std::unique_ptr<test::Aligned> memory = std::make_unique<test::Aligned>();
  float* global = reinterpret_cast<float*>(memory->bytes + 32768);
  QuantizedOutput output{.format = Format::mxfp4};
  Stream stream = &output;
};

TEST_F(CudaFused, silu_mul_launches_one_kernel_with_both_operands) {
  if (kernel_images().empty()) GTEST_SKIP() << "built without nvcc";
  use(Format::mxfp4, ScaleRule::even, Layout::tiled_128x4);
  silu_mul_quantize(device, {matrix(0), matrix(1), output}, stream);
  ASSERT_EQ(device.launches.size(), 1u);
  const auto& seen = device.launches[0];
  EXPECT_EQ(seen.name, "fused_silu_mul_mxfp4_bf16_plain");
  EXPECT_EQ(seen.call.stream, stream);
  const auto args = seen.as<FusedArgs>();
  EXPECT_EQ(args.quantize.input, input->bytes);
  EXPECT_EQ(args.second, input->bytes + 8192);
  EXPECT_EQ(args.second_stride, 72);
  EXPECT_EQ(args.quantize.scale_addend, 1 << 21);
  EXPECT_EQ(args.quantize.code_stride, 32);
  EXPECT_EQ(args.input_step, args.row_step * 72 * 2);
  EXPECT_EQ(args.second_step, args.row_step * 72 * 2);
  EXPECT_EQ(args.code_step, args.row_step * 32);
  EXPECT_EQ(args.scale_step, args.row_step * 2);
  EXPECT_EQ(args.whole, 0);
  EXPECT_EQ(args.tiled, 1);
  EXPECT_EQ(device.waits, 0);
}

TEST_F(CudaFused, rms_norm_passes_weight_residual_and_sum) {
  if (kernel_images().empty()) GTEST_SKIP() << "built without nvcc";
  use(Format::nvfp4, ScaleRule::search);
  output.global_scale = GlobalScale::on_device(global);
  RmsNormOptions options{.input = matrix(0),
                         .weight = matrix(2).data,
                         .epsilon = 1e-5f,
                         .residual = matrix(1),
                         .sum = writable(1),
                         .output = output};
  rms_norm_quantize(device, options, stream);
  ASSERT_EQ(device.launches.size(), 1u);
  EXPECT_EQ(device.launches[0].name, "fused_add_rms_norm_nvfp4_bf16_search");
  const auto args = device.launches[0].as<FusedArgs>();
  EXPECT_EQ(args.weight, matrix(2).data);
  EXPECT_EQ(args.sum, args.second);
  EXPECT_EQ(args.epsilon, 1e-5f);
  EXPECT_EQ(args.quantize.global_scale, global);
}

TEST_F(CudaFused, hadamard_keeps_only_the_signs_of_its_order) {
  if (kernel_images().empty()) GTEST_SKIP() << "built without nvcc";
  HadamardOptions options{matrix(0), 16, {0xFFFF0001u, 5, 6, 7}, output};
  hadamard_quantize(device, options, stream);
  auto args = device.launches.back().as<FusedArgs>();
  EXPECT_EQ(device.launches.back().name, "fused_hadamard_mxfp4_bf16_plain");
  EXPECT_EQ(args.negated[0], 1u);
  EXPECT_EQ(args.negated[1], 0u);
  options.order = 64;
  hadamard_quantize(device, options, stream);
  args = device.launches.back().as<FusedArgs>();
  EXPECT_EQ(args.order, 64);
  EXPECT_EQ(args.negated[0], 0xFFFF0001u);
  EXPECT_EQ(args.negated[1], 5u);
  EXPECT_EQ(args.negated[2], 0u);
}

TEST_F(CudaFused, refuses_what_it_has_no_kernel_for) {
  output.numerics.rounding = Rounding::stochastic;
  expect_error(ErrorCode::unsupported, "rounding stochastic", [&] {
    silu_mul_quantize(device, {matrix(0), matrix(1), output}, stream);
  });
  output.numerics = {.scale_rule = ScaleRule::floor, .compat = Compat::torchao};
  expect_error(ErrorCode::unsupported, "profiles of other tools", [&] {
    silu_mul_quantize(device, {matrix(0), matrix(1), output}, stream);
  });
  use(Format::nvfp4, ScaleRule::nearest);
  output.numerics.compat = Compat::none;
  expect_error(ErrorCode::invalid_argument, "pass GlobalScale::on_device", [&] {
    silu_mul_quantize(device, {matrix(0), matrix(1), output}, stream);
  });
  use(Format::mxint8, ScaleRule::floor);
  expect_error(ErrorCode::unsupported, "mxint8", [&] {
    silu_mul_quantize(device, {matrix(0), matrix(1), output}, stream);
  });
  EXPECT_TRUE(device.launches.empty());
}

TEST_F(CudaFused, refuses_buffers_that_overlap_or_are_misaligned_or_on_the_host) {
  const RmsNormOptions in_place{
      .input = matrix(0), .residual = matrix(1), .sum = writable(0), .output = output};
  expect_error(ErrorCode::invalid_argument, "overlap",
               [&] { rms_norm_quantize(device, in_place, stream); });
  TensorView up = matrix(1);
  up.row_stride = 68;
  expect_error(ErrorCode::invalid_argument, "a multiple of 8 elements", [&] {
    silu_mul_quantize(device, {matrix(0), up, output}, stream);
  });
  up = matrix(1);
  up.data = input->bytes + 8200;
  expect_error(ErrorCode::invalid_argument, "up starts at", [&] {
    silu_mul_quantize(device, {matrix(0), up, output}, stream);
  });
  device.host_only = matrix(1).data;
  expect_error(ErrorCode::invalid_argument, "does not have the memory of up", [&] {
    silu_mul_quantize(device, {matrix(0), matrix(1), output}, stream);
  });
  EXPECT_TRUE(device.launches.empty());
}

TEST_F(CudaFused, an_empty_matrix_launches_nothing) {
  TensorView none = matrix(0);
  none.rows = 0;
  hadamard_quantize(device, {none, 32, {}, output}, stream);
  EXPECT_TRUE(device.launches.empty());
}

}  // namespace
}  // namespace microscale::cuda
