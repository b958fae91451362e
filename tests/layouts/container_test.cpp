#include "layouts/container.hpp"

#include <gtest/gtest.h>

namespace microscale {
namespace {

TEST(Container, holds_a_code_in_bits_5_to_2_of_its_byte) {
  for (std::uint8_t code = 0; code < 16; ++code) {
    EXPECT_EQ(container::pack(code), code * 4);
    EXPECT_EQ(container::unpack(container::pack(code)), code);
    EXPECT_EQ(container::unpack(static_cast<std::uint8_t>(container::pack(code) | 0xC3)), code);
  }
}

}  // namespace
}  // namespace microscale
