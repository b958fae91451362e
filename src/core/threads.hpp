// The one thread pool of the process; a child of fork() has its own. ThreadSanitizer-clean; no task
// ever waits for another.
#pragma once

#include <cstdint>
#include <functional>

namespace microscale {

/// Cores this process may run on (affinity and cgroup quota respected), at least 1.
int available_cores();

/// Calls fn(i) for every i in [0, count), on up to `threads` threads (0: available_cores()), the
/// caller among them, each index once, in no promised order; returns when all are done. The first
/// exception stops the handing out of further indices and is rethrown here. Calls from inside fn
/// run serially.
void parallel_for(std::int64_t count, int threads, const std::function<void(std::int64_t)>& fn);

/// As above with the number of the worker, in [0, threads), for scratch memory per worker.
void parallel_for_worker(std::int64_t count, int threads,
                         const std::function<void(std::int64_t index, int worker)>& fn);

}  // namespace microscale
