// The runtime behind the seam, where there is a GPU.
#include <gtest/gtest.h>

#include <vector>

#include "cuda/device/device.hpp"
#include "microscale/error.hpp"

namespace microscale::cuda {
namespace {

class Runtime : public ::testing::Test {
 protected:
  void SetUp() override {
    if (runtime_device_count() == 0) GTEST_SKIP() << no_device_reason();
  }
};

TEST_F(Runtime, copies_there_and_back) {
  Device& device = runtime_device();
  std::vector<std::uint8_t> host(1000), back(1000);
  for (std::size_t i = 0; i < host.size(); ++i) host[i] = static_cast<std::uint8_t>(i * 7);
  void* memory = device.allocate(1000);
  EXPECT_EQ(device.memory_of(memory), Memory::device);
  EXPECT_EQ(device.memory_of(host.data()), Memory::host);
  device.copy_to_device(memory, host.data(), 1000, nullptr);
  device.copy_to_host(back.data(), memory, 1000, nullptr);
  device.synchronize(nullptr);
  EXPECT_EQ(host, back);
  device.release(memory);
}

TEST_F(Runtime, running_out_of_memory_leaves_no_error_behind) {
  Device& device = runtime_device();
  try {
    device.allocate(std::int64_t{1} << 50);
    FAIL() << "allocated a petabyte";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_memory) << error.what();
  }
  EXPECT_NO_THROW(device.release(device.allocate(64)));
}

}  // namespace
}  // namespace microscale::cuda
