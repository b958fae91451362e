// How well accesses use the memory: 32-byte sectors of global ones, bank conflicts of shared ones.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "emulator/memory/access.hpp"

namespace microscale::emulator {

/// Distinct 32-byte sectors that the lanes touch.
int sectors_of(const WarpAccess& access);
/// As few as those bytes fit into: distinct bytes / 32, rounded up.
int ideal_sectors_of(const WarpAccess& access);

/// Extra passes through shared memory: in each phase (4 bytes and less: the warp; 8: each half; 16
/// and more: each quarter) the largest number of distinct words in one of the 32 banks, minus 1.
int bank_conflicts_of(const WarpAccess& access);

/// Sums over one instruction's executions.
struct AccessCount {
  std::uint64_t requests = 0, lanes = 0, bytes = 0;
  std::uint64_t sectors = 0, ideal_sectors = 0;  // global
  std::uint64_t phases = 0, conflicts = 0;       // shared
  bool global = false, shared = false;
};

/// By instruction index; safe to call from several threads.
class Counters {
 public:
  void add(std::uint32_t instruction, const WarpAccess& access, bool shared);
  std::map<std::uint32_t, AccessCount> all() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::uint32_t, AccessCount> counts_;
};

}  // namespace microscale::emulator
