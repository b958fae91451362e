// Packed codes to containers and back, on the host.
#include "microscale/container.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "layouts/container.hpp"
#include "microscale/error.hpp"

namespace microscale {
namespace {

TEST(RepackContainers, puts_element_i_into_byte_i_and_back) {
  std::mt19937 generator(1);
  for (const std::size_t size : {0u, 1u, 2u, 7u, 4096u, 600001u}) {
    std::vector<std::uint8_t> codes(size), containers(2 * size, 0xFF), back(size, 0xFF);
    for (std::uint8_t& byte : codes) byte = static_cast<std::uint8_t>(generator());
    repack_to_containers({codes, containers}, {.threads = 2});
    bool right = true;
    for (std::size_t i = 0; i < 2 * size; ++i)
      right &= containers[i] == (codes[i / 2] >> (i % 2 ? 4 : 0) & 15) * 4;
    EXPECT_TRUE(right) << size;
    for (std::uint8_t& byte : containers) byte |= static_cast<std::uint8_t>(generator() & 0xC3);
    repack_from_containers({containers, back}, {.threads = 2});
    EXPECT_TRUE(back == codes) << size;
  }
}

TEST(RepackContainers, wants_two_containers_per_packed_byte) {
  std::vector<std::uint8_t> codes(8), containers(15);
  EXPECT_THROW(repack_to_containers({codes, containers}), Error);
  EXPECT_THROW(repack_from_containers({containers, codes}), Error);
}

}  // namespace
}  // namespace microscale
