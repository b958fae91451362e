#include "cuda/device/facts.hpp"

#include <gtest/gtest.h>

#include "cuda/kernel_table.hpp"
#include "fake_device.hpp"
#include "operations_support.hpp"

namespace microscale::cuda {
namespace {

TEST(DeviceFacts, of_a_device_are_its_own) {
  if (kernel_images().empty()) GTEST_SKIP() << "built without nvcc";
  test::FakeDevice device(9, 0);
  const DeviceFacts facts(device);
  EXPECT_EQ(facts.architecture(), "sm_90a");
  EXPECT_EQ(facts.occupancy(kernels::repack("to_rows"), "test").most_clusters(2, 512, 200000), 66);
  test::expect_error(ErrorCode::unsupported, "no kernel for this combination",
                     [&] { facts.occupancy(kernels::repack("none"), "test"); });
}

TEST(DeviceFacts, of_a_described_gpu_hold_one_block_a_multiprocessor) {
  const DeviceFacts facts(described_gpu("h200"));
  const DeviceFacts::Occupancy occupancy = facts.occupancy(kernels::repack("any"), "test");
  EXPECT_EQ(occupancy.most_clusters(1, 512, 1000), 132);
  EXPECT_EQ(occupancy.most_clusters(8, 512, 200000), 16);
  EXPECT_EQ(occupancy.most_clusters(16, 512, 1000), 0);
  EXPECT_EQ(occupancy.most_clusters(1, 512, 232449), 0) << "more shared memory than a block has";
}

TEST(DescribedGpu, is_one_of_a_list) {
  EXPECT_EQ(described_gpu("b200").major, 10);
  test::expect_error(ErrorCode::invalid_argument, "choose one of h100, h200, b200, rtx5090",
                     [] { described_gpu("b201"); });
}

}  // namespace
}  // namespace microscale::cuda
