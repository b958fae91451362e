// Records of accesses, which the cells of a shadow page name, and the log that holds them.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <vector>

#include "emulator/memory/access.hpp"
#include "emulator/memory/shadow.hpp"

namespace microscale::emulator {

/// All accesses of one instruction by one warp between two synchronisations.
struct Record {
  std::uint32_t domain = 0;  // the cluster's number; clocks belong to it
  std::uint32_t slot = 0;    // whose time: a warp of the cluster, its copies, an mbarrier
  std::uint32_t time = 0;
  std::uint32_t epoch = 0;  // of warp-level synchronisation
  std::uint32_t instruction = 0;
  std::uint32_t block = 0;
  std::uint32_t previous = 0;  // of readers: the next of the set
  std::uint16_t warp = 0;      // in the block
  std::uint8_t depth = 0;      // how many follow `previous`
  MemoryScope scope = MemoryScope::sys;
  bool strong = false, asynchronous = false, write = false;
  Unit unit = Unit::none;  // wgmma: as operands, for the warpgroup that `warp` leads

  bool operator==(const Record&) const = default;
};

class RecordLog {
 public:
  RecordLog() : chunks_(limit / chunk) {}
  ~RecordLog();
  RecordLog(const RecordLog&) = delete;
  RecordLog& operator=(const RecordLog&) = delete;

  /// Its number, from 1; 0 (none: later races with it go unseen) once 2^26 are taken.
  std::uint32_t add(const Record& record);
  const Record& operator[](std::uint32_t id) const {
    return chunks_[id / chunk].load(std::memory_order_acquire)[id % chunk];
  }
  /// Forgets all; no other thread may be using it.
  void clear() { next_ = 1; }
  std::uint32_t size() const { return next_ - 1; }

 private:
  static constexpr std::uint32_t chunk = 4096, limit = 1u << (32 - cell_lane_bits);
  std::vector<std::atomic<Record*>> chunks_;
  std::atomic<std::uint32_t> next_{1};
};

/// The records a warp made last, so that a loop makes one and not one a turn.
class RecordCache {
 public:
  /// What tells two records of one warp apart. `mode`: strong, write, asynchronous and scope in one
  /// number.
  struct Key {
    std::uint32_t instruction = 0, time = 0, epoch = 0, previous = 0, slot = 0, mode = 0;
    bool operator==(const Key& other) const {
      using Words = std::array<std::uint64_t, 3>;
      return std::bit_cast<Words>(*this) == std::bit_cast<Words>(other);
    }
  };
  /// The number of the record of `key`; `make()` gives it when there is none.
  template <class Make>
  std::uint32_t number(const Key& key, RecordLog& log, const Make& make) {
    Entry& entry = entries_[(key.instruction * 4 + key.previous) % entries_.size()];
    if (entry.id == 0 || !(entry.key == key)) entry = {key, log.add(make())};
    return entry.id;
  }
  void clear() { entries_.fill({}); }

 private:
  struct Entry {
    Key key;
    std::uint32_t id = 0;
  };
  std::array<Entry, 32> entries_{};
};

}  // namespace microscale::emulator
