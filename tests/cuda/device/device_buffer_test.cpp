#include "microscale/device_buffer.hpp"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "cuda/device/environment.hpp"
#include "microscale/cuda.hpp"
#include "microscale/error.hpp"
#include "queueing_device.hpp"

namespace microscale {
namespace {

class DeviceBufferTest : public ::testing::Test {
 protected:
  cuda::test::QueueingDevice device;
  cuda::DeviceInForce in_force{device};
  std::vector<float> values{1.0f, 2.0f, 3.0f};
};

TEST_F(DeviceBufferTest, holds_what_it_is_given_until_it_is_destroyed) {
  {
    const cuda::Stream stream = device.make_stream();  // this device has no default stream
    DeviceBuffer buffer(12);
    buffer.copy_from(std::span(values), stream);
    EXPECT_EQ(buffer.size(), 12);
    EXPECT_EQ(buffer.bytes().size(), 12u);
    EXPECT_EQ(device.memory_of(buffer.data()), Memory::device);
    std::vector<float> back(3);
    buffer.copy_to(std::span(back), stream);
    EXPECT_EQ(back, values);
    EXPECT_EQ(device.waits, 1);  // copy_to waits
    device.release_stream(stream);
  }
  EXPECT_EQ(device.held(), 0u);
}

TEST_F(DeviceBufferTest, is_set_to_zeros_in_the_order_of_a_stream) {
  const cuda::Stream stream = device.make_stream();
  DeviceBuffer buffer(12);
  buffer.copy_from(std::span(values), stream);
  cuda::set_zero(buffer.bytes().subspan(4, 4), stream);
  cuda::set_zero({}, stream);
  std::vector<float> back(3);
  buffer.copy_to(std::span(back), stream);
  EXPECT_EQ(back, (std::vector<float>{1.0f, 0.0f, 3.0f}));
  EXPECT_EQ(device.waits, 1);  // that of copy_to
  device.release_stream(stream);
}

TEST_F(DeviceBufferTest, moves_and_frees_what_it_held) {
  DeviceBuffer one(64), other(32);
  std::uint8_t* const data = one.data();
  other = std::move(one);
  EXPECT_EQ(other.data(), data);
  EXPECT_EQ(other.size(), 64);
  EXPECT_EQ(device.held(), 1u);
  const DeviceBuffer third(std::move(other));
  EXPECT_EQ(third.data(), data);
  EXPECT_EQ(device.held(), 1u);
  EXPECT_EQ(DeviceBuffer().data(), nullptr);
  EXPECT_EQ(DeviceBuffer(0).size(), 0);
  EXPECT_EQ(device.held(), 1u);
}

TEST_F(DeviceBufferTest, refuses_copies_that_leave_it_and_sizes_below_0) {
  DeviceBuffer small(8);
  EXPECT_THROW(small.copy_from(std::span(values)), Error);
  EXPECT_THROW(small.copy_to(std::span(values)), Error);
  EXPECT_THROW(DeviceBuffer(-1), Error);
  device.room = 0;
  EXPECT_THROW(DeviceBuffer(16), Error);
}

}  // namespace
}  // namespace microscale
