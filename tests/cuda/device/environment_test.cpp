#include "cuda/device/environment.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "cuda/fake_device.hpp"

namespace microscale::cuda {
namespace {

using test::FakeDevice;

TEST(DeviceInForce, stands_behind_the_public_operations_of_its_thread) {
  Device* const before = device_of_environment();
  {
    FakeDevice device(9, 0);
    const DeviceInForce in_force(device);
    EXPECT_EQ(&runtime_device(), &device);
    EXPECT_EQ(&runtime_device(0), &device);
    EXPECT_EQ(runtime_device_count(), 1);
    {
      FakeDevice other(12, 0);
      const DeviceInForce inner(other);
      EXPECT_EQ(&runtime_device(), &other);
      std::thread([&] { EXPECT_EQ(device_of_environment(), before); }).join();
    }
    EXPECT_EQ(&runtime_device(), &device);
  }
  EXPECT_EQ(device_of_environment(), before);
}

}  // namespace
}  // namespace microscale::cuda
