#include "checkpoint/memory_budget.hpp"

#include <gtest/gtest.h>

#include "model_builder.hpp"

namespace microscale {
namespace {

constexpr std::int64_t mib = 1 << 20;

TEST(MemoryBudget, gives_as_many_workers_as_fit) {
  EXPECT_EQ(workers_within(100 * mib, 20 * mib, 10 * mib, 10 * mib, 32), 7);
  EXPECT_EQ(workers_within(100 * mib, 20 * mib, 10 * mib, 10 * mib, 3), 3);
  EXPECT_EQ(workers_within(40 * mib, 20 * mib, 10 * mib, 10 * mib, 8), 1);
}

TEST(MemoryBudget, refuses_a_limit_below_one_worker_and_says_the_least) {
  testing::expect_error(ErrorCode::out_of_memory, "--max-memory to at least 40MiB",
                        [] { workers_within(40 * mib - 1, 20 * mib, 10 * mib, 10 * mib, 8); });
}

TEST(MemoryBudget, knows_what_is_resident) {
  const std::int64_t before = resident_bytes();
  EXPECT_GT(before, mib);
  const std::vector<char> more(64 << 20, 'x');
  EXPECT_GT(resident_bytes(), before + 50 * mib);
  EXPECT_EQ(more.back(), 'x');
}

}  // namespace
}  // namespace microscale
