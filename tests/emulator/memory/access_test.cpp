#include "emulator/memory/access.hpp"

#include <gtest/gtest.h>

namespace microscale::emulator {

TEST(Access, names_a_byte_of_a_peer_apart_from_ones_own) {
  EXPECT_EQ(cluster_shared(3, 0x40) & window_mask, shared_window);
  EXPECT_TRUE(names_block(cluster_shared(3, 0x40)));
  EXPECT_FALSE(names_block(shared_window + 0x40));
  EXPECT_EQ(rank_of(cluster_shared(3, 0x40)), 3u);
  EXPECT_NE(cluster_shared(0, 0x40), shared_window + 0x40);
}

TEST(Access, knows_the_bytes_of_atomic_types) {
  EXPECT_EQ(bytes_of(AtomicType::f16), 2);
  EXPECT_EQ(bytes_of(AtomicType::f16x2), 4);
  EXPECT_EQ(bytes_of(AtomicType::s64), 8);
  EXPECT_EQ(bytes_of(AtomicType::b128), 16);
}

}  // namespace microscale::emulator
