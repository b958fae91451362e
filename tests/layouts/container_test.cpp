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

TEST(Container, takes_four_codes_at_a_time) {
  for (std::uint32_t codes = 0; codes < 65536; ++codes) {
    std::uint32_t containers = 0;
    for (int i = 0; i < 4; ++i)
      containers |= static_cast<std::uint32_t>(
                        container::pack(static_cast<std::uint8_t>(codes >> (4 * i) & 15)))
                    << (8 * i);
    ASSERT_EQ(container::pack4(codes), containers) << codes;
    ASSERT_EQ(container::unpack4(containers), codes);
    ASSERT_EQ(container::unpack4(containers | 0xC3C3C3C3u), codes);
  }
}

}  // namespace
}  // namespace microscale
