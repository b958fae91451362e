// How many workers fit under a limit of resident memory.
#pragma once

#include <cstdint>

namespace microscale {

/// Bytes of this process that are in memory now; 0 where the system does not say.
std::int64_t resident_bytes();

/// At most `wanted` workers of `worker_bytes` each, so that with `used_bytes` (what is resident
/// now) and `other_bytes` (what else will come) the process stays under `limit`. Throws
/// Error{out_of_memory} that says the least possible limit if not even one fits.
int workers_within(std::int64_t limit, std::int64_t used_bytes, std::int64_t other_bytes,
                   std::int64_t worker_bytes, int wanted);

}  // namespace microscale
