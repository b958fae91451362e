#include <gtest/gtest.h>

#include <memory>

#include "cuda/operations.hpp"
#include "cuda/quantize/args.hpp"
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

TEST(CudaContainers, names_the_direction) {
  if (kernel_images().empty()) GTEST_SKIP() << "built without nvcc";
  test::FakeDevice device{9, 0};
  const auto memory = std::make_unique<test::Aligned>();
  repack_containers(device, memory->bytes, memory->bytes + 1024, 1000, true, nullptr);
  repack_containers(device, memory->bytes + 1024, memory->bytes, 1000, false, nullptr);
  repack_containers(device, nullptr, nullptr, 0, true, nullptr);
  ASSERT_EQ(device.launches.size(), 2u);
  EXPECT_EQ(device.launches[0].name, "containers_from_codes");
  EXPECT_EQ(device.launches[1].name, "codes_from_containers");
  EXPECT_EQ(device.launches[1].as<ContainerArgs>().code_bytes, 1000);
  EXPECT_EQ(device.waits, 0);
}

TEST(CudaContainers, refuses_overlap_and_misalignment) {
  test::FakeDevice device{9, 0};
  const auto memory = std::make_unique<test::Aligned>();
  test::expect_error(ErrorCode::invalid_argument, "overlap", [&] {
    repack_containers(device, memory->bytes, memory->bytes + 512, 1000, true, nullptr);
  });
  test::expect_error(ErrorCode::invalid_argument, "align it to 16 bytes", [&] {
    repack_containers(device, memory->bytes + 8, memory->bytes + 4096, 1000, true, nullptr);
  });
}

TEST(ContainerLaunch, covers_every_byte) {
  for (const std::int64_t bytes :
       {std::int64_t{1}, std::int64_t{8192}, std::int64_t{8193}, std::int64_t{1} << 40}) {
    const Launch launch = container_launch(bytes);
    const std::int64_t each = std::int64_t{threads_per_block} * container_piece * container_pieces;
    EXPECT_GE(launch.grid_x * each, bytes);
    EXPECT_LT((launch.grid_x - 1) * each, bytes);
  }
}

}  // namespace
}  // namespace microscale::cuda
