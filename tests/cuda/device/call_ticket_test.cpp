#include "cuda/device/call_ticket.hpp"

#include <gtest/gtest.h>

#include <set>

namespace microscale::cuda {
namespace {

TEST(CallTicket, is_a_number_that_no_other_call_has) {
  constexpr int calls = 10000;
  std::set<std::uint64_t> seen;
  for (int i = 0; i < calls; ++i) seen.insert(next_ticket());
  EXPECT_EQ(seen.size(), calls);
  EXPECT_FALSE(seen.contains(0));
}

}  // namespace
}  // namespace microscale::cuda
