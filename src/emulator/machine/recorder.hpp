// Records what one warp of a launch does, step by step, to be shown later. Costs the other warps
// nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "emulator/machine/program.hpp"
#include "emulator/memory/counters.hpp"
#include "microscale/emulator.hpp"

namespace microscale::emulator {

struct WarpRows;

class Recorder {
 public:
  /// `counters`, which must count, are asked where the lanes of each step went.
  Recorder(const Program& program, const TraceRequest& request, Counters& counters);

  bool watches(std::uint32_t block, std::uint32_t warp) const {
    return block == request_.block && warp == request_.warp;
  }
  /// The operation `instruction` has been performed by `lanes` of those `here`. Called by the one
  /// thread that runs the warp.
  void add(const WarpRows& warp, std::uint32_t instruction, std::uint32_t here,
           std::uint32_t lanes);
  /// A turn of a warp of the watched block. Called by the one thread that runs the block.
  bool watches_block(std::uint32_t block) const { return block == request_.block; }
  void add_turn(WarpTurn turn);
  /// Hands over what was kept.
  void finish(LaunchReport& report);

 private:
  const Program& program_;
  const TraceRequest request_;
  Counters& counters_;
  std::vector<RegisterName> names_;  // by the index that OpInfo::writes uses
  std::vector<std::uint32_t> slots_;
  std::vector<TraceStep> steps_;
  std::uint64_t count_ = 0;
  std::vector<WarpTurn> turns_;
};

}  // namespace microscale::emulator
