// Who knows what: vector clocks of the agents of a cluster, and what atomics and fences carry from
// one agent to another.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

namespace microscale::emulator {

/// For each slot of a cluster, up to which of its times everything is ordered before the owner.
class Clock {
 public:
  std::uint32_t operator[](std::uint32_t slot) const {
    return slot < time_.size() ? time_[slot] : 0;
  }
  void set(std::uint32_t slot, std::uint32_t time);  // only forward
  void forget(std::uint32_t slot) {
    if (slot < time_.size()) time_[slot] = 0;
  }
  void tick(std::uint32_t slot) { set(slot, (*this)[slot] + 1); }
  void join(const Clock& other);
  void meet(const Clock& other);
  bool empty() const { return time_.empty(); }
  void clear() { time_.clear(); }
  bool operator==(const Clock&) const = default;

 private:
  std::vector<std::uint32_t> time_;
};

struct SyncVariable;

/// Everything published at a variable before `version`.
struct Acquired {
  const SyncVariable* variable = nullptr;
  std::uint64_t version = 0;
};
using AcquiredList = std::vector<Acquired>;
void join(AcquiredList& into, const AcquiredList& from);
void meet(AcquiredList& into, const AcquiredList& from);

/// What a warp, or a phase of an mbarrier, knows.
struct Knowledge {
  Clock clock;            // ordered before
  Clock proxy;            // ... and before a fence.proxy.async
  Clock fenced;           // what a strong write publishes: the clock at the last fence of gpu scope
  Clock near_fenced;      // ... of any scope: for agents of this cluster
  Clock tensor;           // tensor memory: before a tcgen05.fence::before_thread_sync
  AcquiredList acquired;  // from other clusters
  AcquiredList seen;      // read by strong reads, and worth nothing before a fence or a barrier
  AcquiredList fenced_acquired;

  void join(const Knowledge& other);
  /// What both know.
  void meet(const Knowledge& other);
  void clear() { *this = {}; }
};

/// A location through which agents of different clusters, or blocks, have synchronised.
struct SyncVariable {
  struct Publication {
    std::uint64_t version;
    Clock clock;       // for everyone
    Clock near_clock;  // for agents of the same cluster
    AcquiredList acquired;
  };
  std::uint64_t address = 0;
  std::uint64_t version = 0;
  std::unordered_map<std::uint32_t, std::vector<Publication>> of;  // by domain
};

/// All of them in a launch; safe to call from several threads.
class SyncVariables {
 public:
  /// Whether anybody has published anything: the quick answer for kernels without fences.
  bool any() const { return any_.load(std::memory_order_relaxed); }

  void publish(std::uint64_t address, std::uint32_t domain, const Clock& clock,
               const Clock& near_clock, const AcquiredList& acquired);
  std::optional<Acquired> look(std::uint64_t address) const;
  /// Adds what agents of `domain` published there.
  void join_own(const Acquired& acquired, std::uint32_t domain, Clock& into) const;
  /// Whether `time` of `slot` in `domain` is ordered before one who acquired `by`.
  bool known(const AcquiredList& by, std::uint32_t domain, std::uint32_t slot,
             std::uint32_t time) const;
  /// Whether `by` has acquired anything at `address`.
  static bool at(const AcquiredList& by, std::uint64_t address);

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::unique_ptr<SyncVariable>> variables_;
  std::atomic<bool> any_{false};
};

}  // namespace microscale::emulator
