// What all blocks of one launch share.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>

#include "emulator/machine/kernel_printf.hpp"
#include "emulator/machine/program.hpp"
#include "emulator/memory/launch_memory.hpp"
#include "microscale/emulator.hpp"

namespace microscale::emulator {

class Recorder;

struct LaunchShape {
  std::uint32_t grid[3] = {1, 1, 1};     // blocks
  std::uint32_t block[3] = {1, 1, 1};    // threads
  std::uint32_t cluster[3] = {1, 1, 1};  // blocks
  bool explicit_cluster = false;
  std::uint64_t dynamic_shared_bytes = 0;

  std::uint32_t threads() const { return block[0] * block[1] * block[2]; }
  std::uint32_t cluster_blocks() const { return cluster[0] * cluster[1] * cluster[2]; }
  std::uint64_t blocks() const { return std::uint64_t{grid[0]} * grid[1] * grid[2]; }
  std::uint64_t clusters() const { return blocks() / cluster_blocks(); }
  /// The first block of cluster `number`, x fastest.
  std::array<std::uint32_t, 3> origin(std::uint64_t number) const {
    const std::uint64_t across = grid[0] / cluster[0], down = grid[1] / cluster[1];
    return {static_cast<std::uint32_t>(number % across) * cluster[0],
            static_cast<std::uint32_t>(number / across % down) * cluster[1],
            static_cast<std::uint32_t>(number / across / down) * cluster[2]};
  }
};

/// Of each block, behind its own: zeros, for kernels that name them (Program::reserved_shared).
inline constexpr std::uint32_t reserved_bytes = 1024;

struct LaunchState {
  const Program& program;
  const LaunchShape shape;
  LaunchMemory& memory;
  Schedule schedule = Schedule::round_robin;
  std::uint64_t seed = 0;
  std::uint64_t budget = 0;          // warp-instructions of the whole launch
  std::uint64_t grid_workspace = 0;  // of cooperative groups' grid: an address, by %envreg1 and 2
  Recorder* recorder = nullptr;      // of one warp's steps; null: not asked for
  PrintedText printed = {};          // by printf
  std::function<bool()> keep_going = {};  // false: the caller stops the launch

  std::atomic<std::uint64_t> next_cluster{0};  // that has not begun, nor was cancelled
  std::atomic<std::uint64_t> executed{0};      // warp-instructions
  std::atomic<bool> stopped{false};            // after a fatal finding, or by the caller
  std::atomic<bool> interrupted{false};        // by the caller

  /// The number of a cluster, which is the caller's to begin, or to tell who cancelled it.
  std::optional<std::uint64_t> take_cluster() {
    if (next_cluster.load() >= shape.clusters()) return std::nullopt;
    const std::uint64_t number = next_cluster++;
    return number < shape.clusters() ? std::optional(number) : std::nullopt;
  }
  /// Of a block, static and dynamic.
  std::uint64_t shared_bytes() const {
    return static_cast<std::uint64_t>(program.shared_bytes) + shape.dynamic_shared_bytes;
  }
  /// Where reserved_bytes begin.
  std::uint64_t reserved_from() const { return (shared_bytes() + 127) / 128 * 128; }
};

}  // namespace microscale::emulator
