// What grouped quantize tells the device, and what it refuses, without a GPU.
#include <gtest/gtest.h>

#include <memory>

#include "cuda/operations.hpp"
#include "cuda/quantize/args.hpp"
#include "fake_device.hpp"
#include "operations_support.hpp"

namespace microscale::cuda {
namespace {

using test::expect_error;

class CudaGroupedQuantize : public ::testing::Test {
 protected:
  CudaGroupedQuantize() {
    options.input = {input->bytes, DType::bf16, 100, 128, 128};
    options.groups = {output->bytes + 49152, OffsetType::i64, 5};
    options.format = Format::nvfp4;
    options.numerics.scale_rule = ScaleRule::nearest;
    options.layout = Layout::tiled_128x4;
    options.global_scale = GlobalScale::per_expert(
        reinterpret_cast<const float*>(output->bytes + 57344), Memory::device);
  }
  void call() {
    grouped_quantize(device, options, {output->bytes, 6400}, {scales, 5 * 1024}, stream);
  }
  test::FakeDevice device{9, 0};
  std::unique_ptr<test::Aligned> input = std::make_unique<test::Aligned>();
  std::unique_ptr<test::Aligned> output = std::make_unique<test::Aligned>();
  std::uint8_t* scales = output->bytes + 32768;
  GroupedQuantizeOptions options;
  Stream stream = &options;
};

TEST_F(CudaGroupedQuantize, launches_one_kernel_and_waits_for_nothing) {
  if (kernel_images().empty()) GTEST_SKIP() << "built without nvcc";
  call();
  ASSERT_EQ(device.launches.size(), 1u);
  EXPECT_EQ(device.launches[0].name, "grouped_quantize_nvfp4_bf16_plain_tiled");
  const auto args = device.launches[0].as<GroupedQuantizeArgs>();
  EXPECT_EQ(args.experts.experts, 5);
  EXPECT_EQ(args.experts.wide_numbers, 1);
  EXPECT_EQ(args.experts.numbers, options.groups.offsets);
  EXPECT_EQ(args.experts.capacity, grouped::no_capacity);
  EXPECT_EQ(args.global_scale, options.global_scale.device_pointer());
  EXPECT_EQ(args.code_stride, 64);
  EXPECT_EQ(args.experts.rows_per_unit,
            args.experts.tiles_per_unit * (256 >> args.tiles.column_shift) * 4);
  EXPECT_EQ(device.waits, 0);
  EXPECT_TRUE(device.zeroed.empty());
}

TEST_F(CudaGroupedQuantize, passes_counts_on_and_looks_where_they_are) {
  if (kernel_images().empty()) GTEST_SKIP() << "built without nvcc";
  std::swap(options.groups.counts, options.groups.offsets);
  options.groups.capacity = 20;
  call();
  ASSERT_EQ(device.launches.size(), 1u);
  const auto args = device.launches[0].as<GroupedQuantizeArgs>();
  EXPECT_EQ(args.experts.numbers, options.groups.counts);
  EXPECT_EQ(args.experts.capacity, 20);
  device.host_only = options.groups.counts;
  expect_error(ErrorCode::invalid_argument, "does not have the memory of counts", [&] { call(); });
}

TEST_F(CudaGroupedQuantize, every_kernel_it_may_ask_for_exists) {
  if (kernel_images().empty()) GTEST_SKIP() << "built without nvcc";
  for (const Format format : {Format::mxfp4, Format::nvfp4, Format::mxfp8_e4m3, Format::mxfp8_e5m2})
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
      for (const char* mode : {"plain", "search"})
        for (const char* layout : {"rows", "tiled"})
          for (const char* architecture : {"sm_90a", "sm_100f", "sm_120f"})
            EXPECT_TRUE(has_kernel(architecture,
                                   "grouped_quantize_" + std::string(info(format).name) + "_" +
                                       std::string(to_string(dtype)) + "_" + mode + "_" + layout));
}

TEST_F(CudaGroupedQuantize, nothing_to_do_launches_nothing) {
  options.groups.experts = 0;
  call();
  options.groups.experts = 5;
  options.input.rows = 0;
  call();
  EXPECT_TRUE(device.launches.empty());
}

TEST_F(CudaGroupedQuantize, refuses_what_it_does_not_offer) {
  options.numerics.rounding = Rounding::stochastic;
  expect_error(ErrorCode::unsupported, "nearest_even", [&] { call(); });
  options.numerics.rounding = Rounding::nearest_even;
  options.numerics.scale_rule = ScaleRule::four_over_six;
  expect_error(ErrorCode::unsupported, "four_over_six", [&] { call(); });
  options.numerics.scale_rule = ScaleRule::nearest;
  device.host_only = options.groups.offsets;
  expect_error(ErrorCode::invalid_argument, "does not have the memory of offsets", [&] { call(); });
  device.host_only = nullptr;
  scales = output->bytes + 64;
  expect_error(ErrorCode::invalid_argument, "overlap", [&] { call(); });
}

TEST(GroupedLaunch, units_divide_scale_tiles_and_cover_every_distribution) {
  for (const int block : {16, 32})
    for (const bool tiled : {false, true})
      for (const std::int64_t cols : {32, 64, 256, 480, 512, 2048, 7168}) {
        const GroupedLaunch g = grouped_launch(65536, cols, 128, block, tiled);
        const int tile_rows = (threads_per_block >> g.launch.column_shift) * rows_per_thread;
        EXPECT_EQ(g.rows_per_unit, tile_rows * g.tiles_per_unit);
        if (tiled) {
          EXPECT_EQ(128 % g.rows_per_unit, 0);
        }
        const std::int64_t units = static_cast<std::int64_t>(g.launch.grid_y) * g.launch.grid_z;
        EXPECT_GE(units * g.rows_per_unit, 65536);
        EXPECT_GE(units, grouped::most_tile_rows(65536, 128, tiled ? 128 : g.rows_per_unit) *
                             (tiled ? 128 / g.rows_per_unit : 1));
      }
}

TEST(GroupedLaunch, leaves_no_thread_beyond_7168_columns) {
  const GroupedLaunch g = grouped_launch(65536, 7168, 128, 16, true);
  EXPECT_EQ(static_cast<std::int64_t>(g.launch.grid_x) << g.launch.column_shift, 7168 / 8);
}

}  // namespace
}  // namespace microscale::cuda
