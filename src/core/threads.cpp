#include "core/threads.hpp"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace microscale {
namespace {

// Cores' worth of time that cgroup v2 grants, rounded up; 0 if there is no limit.
int cgroup_cores() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return 0;
  char* end = nullptr;
  const double microseconds = std::strtod(quota.c_str(), &end);
  return end == quota.c_str() ? 0 : static_cast<int>((microseconds + period - 1) / period);
}

// One call of parallel_for: a counter that hands out indices, and the first exception.
struct Job {
  const std::function<void(std::int64_t, int)>* fn;
  std::int64_t count;
  std::atomic<std::int64_t> next{0};
  std::atomic<bool> failed{false};
  std::mutex mutex;
  std::exception_ptr exception;

  void run(int worker) {
    for (;;) {
      const std::int64_t index = next.fetch_add(1);
      if (index >= count || failed.load()) return;
      try {
        (*fn)(index, worker);
      } catch (...) {
        std::lock_guard lock(mutex);
        if (!exception) exception = std::current_exception();
        failed.store(true);
      }
    }
  }
};

thread_local bool inside_job = false;

// condition_variable::wait is a function of newer libstdc++ only (GLIBCXX_3.4.30), which binaries
// for RHEL 9 must not ask for; wait_for is inline. Wakes once a day for nothing.
template <class Ready>
void wait_until(std::condition_variable& condition, std::unique_lock<std::mutex>& lock,
                const Ready& ready) {
  while (!condition.wait_for(lock, std::chrono::hours(24), ready)) {
  }
}

// How long a thread looks for what it waits for before it sleeps: being woken takes 50 us and more,
// as long as a small product, and the next call of a loop mostly comes sooner.
constexpr std::chrono::microseconds patience{100};

// Whether `ready` came true within `patience`.
template <class Ready>
bool soon(const Ready& ready) {
  const auto end = std::chrono::steady_clock::now() + patience;
  do {
    for (int i = 0; i < 64; ++i) {
      if (ready()) return true;
      __builtin_ia32_pause();
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

// Helpers sleep between jobs; one job runs at a time, others wait their turn. A job waits for those
// helpers only that have begun with it: who wakes up too late leaves it alone.
class Pool {
 public:
  /// `parents`: the pool of the process that this one was forked from. Its threads are not here.
  explicit Pool(Pool* parents = nullptr) : parents_(parents) {}
  ~Pool() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    for (auto& helper : helpers_) helper.join();
  }

  void run(Job& job, int helpers) {
    std::lock_guard one_job_at_a_time(job_mutex_);
    {
      std::lock_guard lock(mutex_);
      while (static_cast<int>(helpers_.size()) < helpers) {
        const int id = static_cast<int>(helpers_.size()) + 1;
        helpers_.emplace_back([this, id] { help(id); });
      }
      patient_ = helpers < available_cores();  // else who looks takes a core from who works
      job_ = &job;
      wanted_ = helpers;
      ++generation_;
    }
    wake_.notify_all();
    inside_job = true;
    job.run(0);
    inside_job = false;
    {
      std::lock_guard lock(mutex_);
      job_ = nullptr;
    }
    const auto ended = [this] { return running_ == 0; };
    if (ended() || (patient_ && soon(ended))) return;
    std::unique_lock lock(mutex_);
    wait_until(done_, lock, ended);
  }

 private:
  void help(int id) {
    inside_job = true;
    std::uint64_t seen = 0;
    const auto called = [&] { return stopping_ || (generation_ != seen && id <= wanted_); };
    for (;;) {
      if (patient_ && id <= wanted_) soon(called);
      Job* job = nullptr;
      {
        std::unique_lock lock(mutex_);
        wait_until(wake_, lock, called);
        if (stopping_) return;
        seen = generation_;
        if (!job_) continue;
        job = job_;
        ++running_;
      }
      job->run(id);
      std::lock_guard lock(mutex_);
      if (--running_ == 0) done_.notify_one();
    }
  }

  [[maybe_unused]] Pool* parents_;  // kept, not ended: no thread would come to join
  std::mutex job_mutex_;
  std::mutex mutex_;  // held to change what follows; some of it is looked at without
  std::condition_variable wake_, done_;
  std::vector<std::thread> helpers_;
  Job* job_ = nullptr;                       // that helpers may still begin with
  std::atomic<int> wanted_{0}, running_{0};  // helpers: that may, and that have begun
  std::atomic<std::uint64_t> generation_{0};
  std::atomic<bool> stopping_{false}, patient_{false};
};

/// The process's pool. A child of fork() begins with one of its own, whatever its parent was at.
class PoolOfProcess {
 public:
  PoolOfProcess() : pool_(new Pool) {
    current = this;
    pthread_atfork(nullptr, nullptr, [] { current->pool_ = new Pool(current->pool_); });
  }
  ~PoolOfProcess() { delete pool_; }
  Pool& pool() { return *pool_; }

 private:
  static inline PoolOfProcess* current = nullptr;
  Pool* pool_;
};

}  // namespace

int available_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  int cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  static const int limit = cgroup_cores();  // read once: 10 us, as long as a small product takes
  if (limit > 0) cores = std::min(cores, limit);
  return std::max(1, cores);
}

void parallel_for_worker(std::int64_t count, int threads,
                         const std::function<void(std::int64_t, int)>& fn) {
  if (threads <= 0) threads = available_cores();
  const std::int64_t useful = std::min<std::int64_t>(threads, count);
  if (useful <= 1 || inside_job) {
    for (std::int64_t i = 0; i < count; ++i) fn(i, 0);
    return;
  }
  static PoolOfProcess process;
  Job job{.fn = &fn, .count = count, .next = 0, .failed = false, .mutex = {}, .exception = {}};
  process.pool().run(job, static_cast<int>(useful) - 1);
  if (job.exception) std::rethrow_exception(job.exception);
}

void parallel_for(std::int64_t count, int threads, const std::function<void(std::int64_t)>& fn) {
  parallel_for_worker(count, threads, [&](std::int64_t index, int) { fn(index); });
}

}  // namespace microscale
