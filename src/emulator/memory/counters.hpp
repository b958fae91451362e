// How well accesses use the memory: 32-byte sectors of global ones, bank conflicts of shared ones.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "emulator/memory/access.hpp"
#include "microscale/emulator.hpp"

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
  std::uint64_t global_requests = 0, shared_requests = 0;
  AccessSample sample;  // the first of the lowest block's lowest warp
};

/// By instruction index; safe to call from several threads.
class Counters {
 public:
  void add(const Agent& agent, const WarpAccess& access, bool shared);
  /// From here on the latest access of this warp is kept for take_watched().
  void watch(std::uint32_t block, std::uint32_t warp);
  /// The watched warp's latest access, of which it is asked once; its lanes are 0 if there was
  /// none.
  AccessSample take_watched();
  std::map<std::uint32_t, AccessCount> all() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::uint32_t, AccessCount> counts_;
  bool watching_ = false;
  std::uint32_t block_ = 0, warp_ = 0;
  AccessSample watched_;
};

}  // namespace microscale::emulator
