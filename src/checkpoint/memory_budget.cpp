#include "checkpoint/memory_budget.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "microscale/error.hpp"

namespace microscale {

std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t total = 0, resident = 0;
  if (!(file >> total >> resident)) return 0;
  return resident * ::sysconf(_SC_PAGESIZE);
}

int workers_within(std::int64_t limit, std::int64_t used_bytes, std::int64_t other_bytes,
                   std::int64_t worker_bytes, int wanted) {
  const std::int64_t base = used_bytes + other_bytes, least = base + worker_bytes;
  if (limit < least) {
    constexpr std::int64_t mib = 1 << 20;
    throw Error(
        ErrorCode::out_of_memory,
        fmt::format("quantize: a memory limit of {} MiB is too small: {} MiB are needed for the "
                    "program and the tables of this model and {} MiB for one worker; set "
                    "--max-memory to at least {}MiB",
                    limit / mib, (base + mib - 1) / mib, (worker_bytes + mib - 1) / mib,
                    (least + mib - 1) / mib));
  }
  return static_cast<int>(
      std::clamp<std::int64_t>((limit - base) / worker_bytes, 1, std::max(1, wanted)));
}

}  // namespace microscale
