#include "emulator/memory/mbarrier.hpp"

#include <gtest/gtest.h>

namespace microscale::emulator {

TEST(Mbarrier, completes_a_phase_when_all_arrived) {
  MbarrierState barrier;
  ASSERT_EQ(barrier.init(3), MbarrierError::none);
  EXPECT_FALSE(barrier.test_parity(0));
  EXPECT_TRUE(barrier.test_parity(1));  // the phase before the first
  EXPECT_EQ(barrier.arrive(2), MbarrierError::none);
  EXPECT_FALSE(barrier.test(0));
  EXPECT_EQ(barrier.arrive(1), MbarrierError::none);
  EXPECT_TRUE(barrier.test(0));
  EXPECT_TRUE(barrier.test_parity(0));
  EXPECT_FALSE(barrier.test_parity(1));
  EXPECT_EQ(barrier.pending(), 3u);
}

TEST(Mbarrier, waits_for_transaction_bytes_too) {
  MbarrierState barrier;
  barrier.init(1);
  barrier.expect(256);
  barrier.arrive(1);
  EXPECT_EQ(barrier.phase(), 0u);
  barrier.complete(128);
  EXPECT_EQ(barrier.phase(), 0u);
  barrier.complete(128);
  EXPECT_EQ(barrier.phase(), 1u);
}

TEST(Mbarrier, takes_bytes_before_they_are_expected) {
  MbarrierState barrier;
  barrier.init(1);
  EXPECT_EQ(barrier.complete(64), MbarrierError::none);
  EXPECT_EQ(barrier.transaction_bytes(), -64);
  EXPECT_EQ(barrier.expect(64), MbarrierError::none);
  EXPECT_EQ(barrier.phase(), 0u);
  barrier.arrive(1);
  EXPECT_EQ(barrier.phase(), 1u);
}

TEST(Mbarrier, refuses_what_overflows) {
  MbarrierState barrier;
  EXPECT_EQ(barrier.init(0), MbarrierError::bad_count);
  EXPECT_EQ(barrier.init(1u << 20), MbarrierError::bad_count);
  barrier.init(2);
  EXPECT_EQ(barrier.arrive(3), MbarrierError::too_many);
  EXPECT_EQ(barrier.arrive(0), MbarrierError::bad_count);
  EXPECT_EQ(barrier.expect(1u << 20), MbarrierError::too_many_bytes);
  EXPECT_EQ(barrier.complete(1u << 20), MbarrierError::too_many_bytes);
  EXPECT_EQ(barrier.raise(), MbarrierError::none);
  EXPECT_EQ(barrier.pending(), 3u);
}

}  // namespace microscale::emulator
