// What quantize tells the device, and what it refuses, without a GPU.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "cuda/operations.hpp"
#include "cuda/quantize/args.hpp"
#include "fake_device.hpp"
#include "operations_support.hpp"

namespace microscale::cuda {
namespace {

using test::expect_error;

class CudaQuantize : public ::testing::Test {
 protected:
  CudaQuantize() {
    options.input = {input->bytes, DType::bf16, 4, 64, 72};
    options.format = Format::mxfp4;
    options.numerics.scale_rule = ScaleRule::even;
  }
  void call() {
    const BlockShape shape{options.input.rows, options.input.cols, options.format, options.axis,
                           options.layout};
    quantize(device, options, {codes, static_cast<std::size_t>(shape.code_bytes())},
             {scales, static_cast<std::size_t>(shape.scale_bytes())}, stream);
  }
  void call_both() {
    const BlockShape shape{options.input.rows, options.input.cols, options.format, BlockAxis::cols,
                           options.layout};
    BlockShape other = shape;
    other.axis = BlockAxis::rows;
    quantize_both(device, options, {codes, static_cast<std::size_t>(shape.code_bytes())},
                  {scales, static_cast<std::size_t>(shape.scale_bytes())},
                  {column_codes, static_cast<std::size_t>(other.code_bytes())},
                  {column_scales, static_cast<std::size_t>(other.scale_bytes())}, stream);
  }
  test::FakeDevice device{9, 0};
  std::unique_ptr<test::Aligned> input = std::make_unique<test::Aligned>();
  std::unique_ptr<test::Aligned> output = std::make_unique<test::Aligned>();
  std::uint8_t* codes = output->bytes;
  std::uint8_t* scales = output->bytes + 4096;
  std::uint8_t* column_codes = output->bytes + 16384;
  std::uint8_t* column_scales = output->bytes + 24576;
  float* global = reinterpret_cast<float*>(output->bytes + 32768);
  QuantizeOptions options{.input = {}, .format = Format::mxfp4};
  Stream stream = &options;
};

TEST_F(CudaQuantize, launches_one_kernel_with_the_rule_as_numbers) {
  if (kernel_images().empty()) GTEST_SKIP() << "built without nvcc";
  options.layout = Layout::tiled_128x4;
  options.numerics.nan = NanPolicy::drop;
  options.first_index = 77;
  call();
  ASSERT_EQ(device.launches.size(), 1u);
  const auto& seen = device.launches[0];
  EXPECT_EQ(seen.name, "quantize_mxfp4_bf16_plain_tiled");
  EXPECT_EQ(seen.call.stream, stream);
  const auto args = seen.as<QuantizeArgs>();
  EXPECT_EQ(args.input, input->bytes);
  EXPECT_EQ(args.row_stride, 72);
  EXPECT_EQ(args.code_stride, 32);
  EXPECT_EQ(args.scale_addend, 1 << 21);
  EXPECT_EQ(args.emax, 2);
  EXPECT_EQ(args.nan_propagates, 0);
  EXPECT_EQ(args.first_index, 77u);
  EXPECT_EQ(device.waits, 0);
}

TEST_F(CudaQuantize, computes_the_global_scale_in_front_when_asked_to) {
  if (kernel_images().empty()) GTEST_SKIP() << "built without nvcc";
  options.format = Format::nvfp4;
  options.numerics.scale_rule = ScaleRule::nearest;
  options.computed_global_scale = global;
  call();
  ASSERT_EQ(device.launches.size(), 3u);
  EXPECT_EQ(device.launches[0].name, "abs_max_bf16");
  EXPECT_EQ(device.launches[1].name, "global_scale");
  EXPECT_EQ(device.launches[2].name, "quantize_small_nvfp4_bf16");
  ASSERT_EQ(device.zeroed.size(), 1u);
  EXPECT_EQ(device.zeroed[0].first, global);
  EXPECT_EQ(device.launches[1].as<AbsMaxArgs>().global_scale, global);
  EXPECT_EQ(device.launches[2].as<QuantizeArgs>().global_scale, global);
}

TEST_F(CudaQuantize, only_small_tensors_with_row_major_scales_have_kernels_of_their_own) {
  if (kernel_images().empty()) GTEST_SKIP() << "built without nvcc";
  call();
  options.numerics.scale_rule = ScaleRule::search;
  call();
  ASSERT_EQ(device.launches.size(), 2u);
  EXPECT_EQ(device.launches[0].name, "quantize_small_mxfp4_bf16");
  EXPECT_EQ(device.launches[0].as<QuantizeArgs>().tiles.scale_words, 0);  // two scales a row
  EXPECT_EQ(device.launches[1].name, "quantize_mxfp4_bf16_search_rows");
}

TEST_F(CudaQuantize, refuses_memory_that_is_not_the_devices) {
  device.host_only = input->bytes;
  expect_error(ErrorCode::invalid_argument, "does not have the memory of the input",
               [&] { call(); });
  device.host_only = nullptr;
  codes = nullptr;
  expect_error(ErrorCode::invalid_argument, "codes is null", [&] { call(); });
}

TEST_F(CudaQuantize, refuses_misaligned_starts_and_rows) {
  scales = output->bytes + 4100;
  expect_error(ErrorCode::invalid_argument, "align it to 16 bytes", [&] { call(); });
  scales = output->bytes + 4096;
  options.input.row_stride = 68;
  expect_error(ErrorCode::invalid_argument, "a multiple of 8 elements", [&] { call(); });
}

TEST_F(CudaQuantize, refuses_overlapping_buffers) {
  scales = codes + 64;
  expect_error(ErrorCode::invalid_argument, "overlap", [&] { call(); });
  scales = output->bytes + 4096;
  codes = input->bytes + 256;
  expect_error(ErrorCode::invalid_argument, "the input", [&] { call(); });
}

TEST_F(CudaQuantize, refuses_what_it_does_not_offer_with_the_reason) {
  const float weights[64] = {};
  options.weights = weights;
  expect_error(ErrorCode::unsupported, "importance weights", [&] { call(); });
  options.weights = {};
  options.axis = BlockAxis::rows;  // of 4 rows
  expect_error(ErrorCode::unsupported, "multiple of the block", [&] { call(); });
  options.axis = BlockAxis::cols;
  options.numerics.compat = Compat::torchao;
  expect_error(ErrorCode::unsupported, "profiles of other tools", [&] { call(); });
  options.numerics.compat = Compat::none;
  options.non_finite = NonFinite::refuse;
  expect_error(ErrorCode::unsupported, "NonFinite::encode", [&] { call(); });
  options.non_finite = NonFinite::encode;
  options.input.cols = 48;
  expect_error(ErrorCode::unsupported, "multiple of the block", [&] { call(); });
  options.input.cols = 64;
  options.format = Format::mxint8;
  expect_error(ErrorCode::unsupported, "mxint8", [&] { call(); });
  EXPECT_TRUE(device.launches.empty());
}

TEST_F(CudaQuantize, wants_exactly_one_global_scale_on_the_device) {
  options.format = Format::nvfp4;
  options.numerics.scale_rule = ScaleRule::nearest;
  expect_error(ErrorCode::invalid_argument, "either global_scale", [&] { call(); });
  options.global_scale = GlobalScale::on_device(global);
  options.computed_global_scale = global;
  expect_error(ErrorCode::invalid_argument, "either global_scale", [&] { call(); });
  options.computed_global_scale = nullptr;
  options.global_scale = 1.0f;
  expect_error(ErrorCode::invalid_argument, "pass GlobalScale::on_device", [&] { call(); });
}

TEST_F(CudaQuantize, along_columns_launches_one_kernel_with_the_transposed_strides) {
  if (kernel_images().empty()) GTEST_SKIP() << "built without nvcc";
  options.input = {input->bytes, DType::bf16, 64, 20, 24};
  options.axis = BlockAxis::rows;
  options.layout = Layout::tiled_128x4;
  call();
  ASSERT_EQ(device.launches.size(), 1u);
  EXPECT_EQ(device.launches[0].name, "quantize_columns_mxfp4_bf16_plain");
  const auto args = device.launches[0].as<ColumnsArgs>();
  EXPECT_EQ(args.rows.input, input->bytes);
  EXPECT_EQ(args.rows.cols, 20);
  EXPECT_EQ(args.rows.codes, nullptr);
  EXPECT_EQ(args.codes, codes);
  EXPECT_EQ(args.code_stride, 32);
  EXPECT_EQ(args.scales, scales);
  EXPECT_EQ(args.tiled, 1);
  EXPECT_EQ(device.waits, 0);
}

TEST_F(CudaQuantize, both_axes_are_one_launch_where_one_read_decides_the_scales) {
  if (kernel_images().empty()) GTEST_SKIP() << "built without nvcc";
  options.input = {input->bytes, DType::f16, 32, 64, 64};
  call_both();
  ASSERT_EQ(device.launches.size(), 1u);
  EXPECT_EQ(device.launches[0].name, "quantize_both_mxfp4_f16_plain");
  const auto args = device.launches[0].as<ColumnsArgs>();
  EXPECT_EQ(args.rows.codes, codes);
  EXPECT_EQ(args.rows.scales, scales);
  EXPECT_EQ(args.rows.code_stride, 32);
  EXPECT_EQ(args.codes, column_codes);
  EXPECT_EQ(args.scales, column_scales);
  EXPECT_EQ(args.code_stride, 16);

  device.launches.clear();
  options.numerics.rounding = Rounding::stochastic;
  call_both();
  ASSERT_EQ(device.launches.size(), 2u);
  EXPECT_EQ(device.launches[0].name, "quantize_mxfp4_f16_general_rows");
  EXPECT_EQ(device.launches[1].name, "quantize_columns_mxfp4_f16_general");
}

TEST_F(CudaQuantize, both_axes_share_one_computed_global_scale) {
  if (kernel_images().empty()) GTEST_SKIP() << "built without nvcc";
  options.input = {input->bytes, DType::f16, 32, 64, 64};
  options.format = Format::nvfp4;
  options.numerics.scale_rule = ScaleRule::four_over_six;
  options.computed_global_scale = global;
  call_both();
  ASSERT_EQ(device.launches.size(), 4u);
  EXPECT_EQ(device.launches[0].name, "abs_max_f16");
  EXPECT_EQ(device.launches[1].name, "global_scale");
  EXPECT_EQ(device.launches[2].as<QuantizeArgs>().global_scale, global);
  EXPECT_EQ(device.launches[3].as<ColumnsArgs>().rows.global_scale, global);
}

TEST_F(CudaQuantize, both_axes_refuse_overlap_and_a_height_that_is_no_multiple_of_the_block) {
  expect_error(ErrorCode::unsupported, "make the rows a multiple", [&] { call_both(); });
  options.input.rows = 32;
  column_codes = codes + 64;
  expect_error(ErrorCode::invalid_argument, "codes", [&] { call_both(); });
  column_codes = output->bytes + 16384;
  column_scales = input->bytes;
  expect_error(ErrorCode::invalid_argument, "column scales", [&] { call_both(); });
  EXPECT_TRUE(device.launches.empty());
}

TEST_F(CudaQuantize, an_empty_matrix_launches_nothing) {
  options.input.rows = 0;
  call();
  EXPECT_TRUE(device.launches.empty());
}

}  // namespace
}  // namespace microscale::cuda
