#include "emulator/memory/order.hpp"

#include <gtest/gtest.h>

namespace microscale::emulator {

TEST(Clock, only_goes_forward_and_joins_by_maximum) {
  Clock a, b;
  a.set(0, 5);
  a.set(0, 3);
  EXPECT_EQ(a[0], 5u);
  EXPECT_EQ(a[9], 0u);
  b.set(2, 4);
  b.tick(0);
  a.join(b);
  EXPECT_EQ(a[0], 5u);
  EXPECT_EQ(a[2], 4u);
}

TEST(Knowledge, meets_in_what_both_know) {
  SyncVariables variables;
  variables.publish(100, 7, {}, {}, {});
  const Acquired early = *variables.look(100);
  Clock clock;
  clock.set(0, 1);
  variables.publish(100, 7, clock, clock, {});
  variables.publish(200, 7, clock, clock, {});
  const Acquired late = *variables.look(100), other = *variables.look(200);
  Knowledge a, b;
  a.clock.set(0, 5), a.clock.set(2, 7), a.proxy.set(1, 4);
  b.clock.set(0, 3), b.clock.set(1, 9);
  a.acquired = {late, other};
  b.acquired = {early};
  a.meet(b);
  EXPECT_EQ(a.clock[0], 3u);
  EXPECT_EQ(a.clock[1], 0u);
  EXPECT_EQ(a.clock[2], 0u);
  EXPECT_EQ(a.proxy[1], 0u);
  ASSERT_EQ(a.acquired.size(), 1u);
  EXPECT_EQ(a.acquired[0].version, early.version);
}

TEST(SyncVariables, carry_what_was_published_before_the_look) {
  SyncVariables variables;
  EXPECT_FALSE(variables.any());
  EXPECT_FALSE(variables.look(100).has_value());
  Clock clock;
  clock.set(1, 5);
  variables.publish(100, 7, clock, clock, {});
  const Acquired early = *variables.look(100);
  EXPECT_TRUE(variables.known({early}, 7, 1, 5));
  EXPECT_FALSE(variables.known({early}, 7, 1, 6));
  EXPECT_FALSE(variables.known({early}, 8, 1, 5));
  clock.set(1, 9);
  variables.publish(100, 7, clock, clock, {});
  EXPECT_FALSE(variables.known({early}, 7, 1, 9));
  EXPECT_TRUE(variables.known({*variables.look(100)}, 7, 1, 9));
}

TEST(SyncVariables, carry_what_the_publisher_had_acquired_itself) {
  SyncVariables variables;
  Clock first, second;
  first.set(0, 3);
  second.set(0, 1);
  variables.publish(100, 1, first, first, {});
  variables.publish(200, 2, second, second, {*variables.look(100)});
  const Acquired last = *variables.look(200);
  EXPECT_TRUE(variables.known({last}, 1, 0, 3));
  EXPECT_TRUE(SyncVariables::at({last}, 200));
  EXPECT_FALSE(SyncVariables::at({last}, 100));
}

TEST(SyncVariables, give_a_near_clock_to_the_same_domain_only) {
  SyncVariables variables;
  Clock near_clock;
  near_clock.set(3, 2);
  variables.publish(100, 1, {}, near_clock, {});
  EXPECT_FALSE(variables.known({*variables.look(100)}, 1, 3, 2));
  Clock into;
  variables.join_own(*variables.look(100), 1, into);
  EXPECT_EQ(into[3], 2u);
}

}  // namespace microscale::emulator
