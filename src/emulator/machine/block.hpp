// A block of a running grid: its warps, its place and its barriers.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "emulator/machine/launch_state.hpp"
#include "emulator/machine/warp.hpp"
#include "emulator/machine/warpgroup.hpp"
#include "emulator/memory/cluster_memory.hpp"

namespace microscale::emulator {

class Cluster;

class Block {
 public:
  static constexpr std::uint8_t cluster_barrier = 16;  // beside the 16 of a block

  Block(Cluster& cluster, std::uint32_t rank) : cluster_(cluster), rank_(rank) {}
  /// Everything as at the start of block (x, y, z); `registers` is of Warp::memory_bytes a warp.
  void start(const std::uint32_t (&place)[3], std::uint8_t* registers);

  std::uint32_t linear() const { return linear_; }  // in the grid, x fastest
  std::uint32_t rank() const { return rank_; }      // in its cluster
  std::vector<Warp>& warps() { return warps_; }
  Cluster& cluster() const { return cluster_; }
  LaunchState& launch() const;
  ClusterMemory& memory() const;
  const Places& places() const { return launch().memory.places; }
  bool checks_races() const { return launch().memory.options.races; }
  FindingSink& sink() const { return launch().memory.sink; }
  std::uint64_t* counts() const;  // warps and lanes of each operation, or null

  /// A special register's value in the lanes of a warp.
  void special(const SpecialRow& which, std::uint32_t warp, std::uint32_t* values) const;
  std::uint32_t live_threads() const;

  struct Arrival {
    std::uint8_t barrier = 0;
    std::uint32_t threads = 0;    // that must come; 0: all of the block
    bool waits = true;            // not bar.arrive
    std::uint32_t predicate = 0;  // of bar.red, a mask
  };
  /// The lanes have come to a barrier; opens it when they were the last.
  void arrive(Warp& warp, const Op& op, std::uint32_t lanes, const Arrival& arrival);
  void arrive_at_cluster(Warp& warp, std::uint32_t lanes);
  std::uint64_t cluster_phase() const;  // how often barrier.cluster has opened
  /// "barrier 1, where 32 of 64 threads have come".
  std::string describe(std::uint8_t barrier) const;
  /// Some of its lanes have exited: barriers of all threads may be complete now.
  void on_exit(Warp& warp);
  Warpgroup& warpgroup(const Warp& warp) { return warpgroups_[warp.index() / Warpgroup::warps]; }

 private:
  struct Barrier {
    std::uint32_t threads = 0;               // as its first arrival said
    std::uint32_t slots = 0, lanes = 0;      // that have come; a whole warp counts as 32 slots
    std::uint32_t count = 0;                 // of true predicates
    std::uint64_t waiting = 0, arrived = 0;  // warps
  };
  bool complete(const Barrier& barrier) const;
  void open(std::uint8_t number);

  Cluster& cluster_;
  const std::uint32_t rank_;
  std::uint32_t linear_ = 0, place_[3] = {};
  std::vector<Warp> warps_;
  std::vector<Warpgroup> warpgroups_;
  std::array<Barrier, 16> barriers_;
};

}  // namespace microscale::emulator
