#include <gtest/gtest.h>

#include <memory>

#include "cuda/quantize/args.hpp"
#include "cuda/quantize/operations.hpp"
#include "fake_device.hpp"
#include "operations_support.hpp"

namespace microscale::cuda {
namespace {

TEST(CudaRepack, names_the_direction_and_gives_lines_and_blocks) {
  if (kernel_images().empty()) GTEST_SKIP() << "built without nvcc";
  test::FakeDevice device(9, 0);
  const auto memory = std::make_unique<test::Aligned>();
  const BlockShape shape{100, 96, Format::mxfp8_e4m3, BlockAxis::cols, Layout::row_major};
  repack_scales(device, {shape, {}, {memory->bytes, 300}}, Layout::tiled_128x4,
                {memory->bytes + 1024, 512}, nullptr);
  ASSERT_EQ(device.launches.size(), 1u);
  EXPECT_EQ(device.launches[0].name, "repack_to_tiled");
  EXPECT_EQ(device.launches[0].as<RepackArgs>().lines, 100);
  EXPECT_EQ(device.launches[0].as<RepackArgs>().blocks, 3);
}

TEST(CudaRepack, refuses_overlap) {
  test::FakeDevice device(9, 0);
  const auto memory = std::make_unique<test::Aligned>();
  const BlockShape shape{100, 96, Format::mxfp8_e4m3, BlockAxis::cols, Layout::row_major};
  test::expect_error(ErrorCode::invalid_argument, "overlap", [&] {
    repack_scales(device, {shape, {}, {memory->bytes, 300}}, Layout::tiled_128x4,
                  {memory->bytes + 256, 512}, nullptr);
  });
}

}  // namespace
}  // namespace microscale::cuda
