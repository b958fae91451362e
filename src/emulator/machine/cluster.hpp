// The blocks of one cluster (usually a single one), run by one host thread: which warp goes next,
// and what it means when none can.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "emulator/machine/block.hpp"

namespace microscale::emulator {

class Cluster {
 public:
  /// `counts`: two numbers for each operation, executions by warps and by lanes; may be null.
  Cluster(LaunchState& launch, std::uint64_t* counts);

  /// Makes it cluster `number` of the grid, at its beginning.
  void begin(std::uint64_t number);

  enum class Turn : std::uint8_t {
    ended,  // or the launch is stopped
    waits,  // has done nothing for a while but look at memory: as one that waits for other blocks
  };
  Turn run();

  LaunchState& launch() const { return launch_; }
  ClusterMemory& memory() { return memory_; }
  std::uint64_t* counts() const { return counts_; }

  // barrier.cluster: arrive counts lanes, and the last of them releases the lanes that wait.
  void arrive(Warp& warp, std::uint32_t lanes);
  std::uint64_t barrier_phase() const { return barrier_phase_; }
  void on_exit();

 private:
  bool spend(std::uint64_t instructions);
  void record_turn(Warp& warp, std::uint64_t instructions, bool waits);
  bool mend_standstill();
  void report_deadlock();
  void open_if_complete();

  LaunchState& launch_;
  ClusterMemory memory_;
  std::uint64_t* counts_;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::vector<Warp*> warps_;
  std::unique_ptr<std::uint8_t[], void (*)(std::uint8_t*)> registers_;
  std::uint64_t random_ = 0;
  std::uint64_t round_start_ = 0, round_length_ = 0;  // of the recorder's clock
  std::uint64_t looked_ = 0;  // instructions since the caller was asked whether to go on
  std::uint32_t barrier_lanes_ = 0;
  std::uint64_t barrier_phase_ = 0;
};

}  // namespace microscale::emulator
