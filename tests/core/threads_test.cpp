#include "core/threads.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "support/paths.hpp"

namespace microscale {
namespace {

TEST(ParallelFor, calls_every_index_once) {
  for (int threads : {0, 1, 2, 7}) {
    std::vector<std::atomic<int>> calls(1000);
    parallel_for(1000, threads, [&](std::int64_t i) { ++calls[static_cast<std::size_t>(i)]; });
    for (const auto& count : calls) ASSERT_EQ(count.load(), 1);
  }
}

TEST(ParallelFor, what_tasks_wrote_is_visible_afterwards) {
  std::vector<std::int64_t> squares(5000);
  for (int round = 0; round < 50; ++round)
    parallel_for(5000, 4,
                 [&](std::int64_t i) { squares[static_cast<std::size_t>(i)] = i * i + round; });
  EXPECT_EQ(std::accumulate(squares.begin(), squares.end(), std::int64_t{0}),
            4999LL * 5000 * 9999 / 6 + 49 * 5000);
}

TEST(ParallelFor, worker_numbers_stay_below_the_thread_count) {
  std::atomic<int> highest{0};
  parallel_for_worker(500, 3, [&](std::int64_t, int worker) {
    int seen = highest.load();
    while (worker > seen && !highest.compare_exchange_weak(seen, worker)) {
    }
  });
  EXPECT_LT(highest.load(), 3);
}

TEST(ParallelFor, rethrows_the_exception_of_a_task_and_works_again) {
  EXPECT_THROW(parallel_for(100, 4,
                            [](std::int64_t i) {
                              if (i == 17) throw std::runtime_error("seventeen");
                            }),
               std::runtime_error);
  std::atomic<int> calls{0};
  parallel_for(100, 4, [&](std::int64_t) { ++calls; });
  EXPECT_EQ(calls.load(), 100);
}

TEST(ParallelFor, nested_calls_run_in_place) {
  std::atomic<int> calls{0};
  parallel_for(8, 4, [&](std::int64_t) { parallel_for(8, 4, [&](std::int64_t) { ++calls; }); });
  EXPECT_EQ(calls.load(), 64);
}

TEST(ParallelFor, works_in_a_child_of_fork) {
  if (testing::sanitizers() == "thread")
    GTEST_SKIP() << "ThreadSanitizer ends a child that starts threads after its parent had some";
  const auto count = [] {
    std::atomic<int> calls{0};
    parallel_for(100, 4, [&](std::int64_t) { ++calls; });
    return calls.load();
  };
  ASSERT_EQ(count(), 100);  // so that the parent has threads, which the child has not
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(20);  // one that waits for its parent's threads would do so forever
    _exit(count() == 100 && count() == 100 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(ParallelFor, no_work_calls_nothing) {
  parallel_for(0, 4, [](std::int64_t) { FAIL(); });
}

TEST(AvailableCores, is_at_least_one) { EXPECT_GE(available_cores(), 1); }

}  // namespace
}  // namespace microscale
