// What all blocks of one launch share: global memory, constants, parameters, the log of accesses,
// and where findings go.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "emulator/finding.hpp"
#include "emulator/memory/access.hpp"
#include "emulator/memory/counters.hpp"
#include "emulator/memory/global_memory.hpp"
#include "emulator/memory/order.hpp"
#include "emulator/memory/record.hpp"

namespace microscale::emulator {

struct MemoryOptions {
  bool races = true;              // off: no races, missing waits or fences are looked for
  bool equal_stores_race = true;  // off: none where one instruction stores equal bytes again
  bool count = false;             // sectors and bank conflicts, per instruction
  AsyncPolicy policy = AsyncPolicy::latest;
  std::uint64_t seed = 0;  // of AsyncPolicy::random
  bool together = true;    // lanes at once where nothing is amiss; off: each run of them by itself
};

class LaunchMemory {
 public:
  /// `places` and `sink` must outlive it. One launch, one object.
  LaunchMemory(GlobalMemory& global, const Places& places, FindingSink& sink,
               MemoryOptions options = {})
      : global(global),
        places(places),
        sink(sink),
        options(options),
        number(global.next_launch()) {}

  GlobalMemory& global;
  const Places& places;
  FindingSink& sink;
  const MemoryOptions options;
  const std::uint32_t number;  // from 1

  std::vector<std::uint8_t> constants;  // at constant_window
  std::vector<std::uint8_t> params;     // at param_window

  RecordLog log;  // of accesses to global memory
  SyncVariables variables;
  Counters counters;
};

}  // namespace microscale::emulator
