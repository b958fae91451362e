// What the executor says to the memory: who touches which bytes, by which instruction.
#pragma once

#include <array>
#include <cstdint>

namespace microscale::emulator {

inline constexpr int warp_lanes = 32;

/// Windows of the 64-bit generic address space. Global memory is at its real host address (below
/// 2^48); the others are offsets in their window, which `cvta` adds and removes.
inline constexpr std::uint64_t shared_window = 0x0100'0000'0000'0000;  // + cta rank << 32 in a cluster
inline constexpr std::uint64_t local_window = 0x0200'0000'0000'0000;
inline constexpr std::uint64_t constant_window = 0x0300'0000'0000'0000;
inline constexpr std::uint64_t param_window = 0x0400'0000'0000'0000;
inline constexpr std::uint64_t window_mask = 0xff00'0000'0000'0000;

/// An agent that touches memory: a warp, or an asynchronous copy that one started.
struct Agent {
  std::uint32_t block = 0;        // linear number in the grid
  std::uint32_t warp = 0;         // in the block
  std::uint32_t instruction = 0;  // index in the program: named in a finding
  bool asynchronous = false;      // through the async proxy (bulk copies, wgmma)
};

/// One instruction's access by the lanes of a warp.
struct WarpAccess {
  std::uint32_t lanes = 0;  // bit i: lane i takes part
  int bytes = 0;            // of each lane: 1, 2, 4, 8, 16 or 32; the address must be a multiple of it
  const std::uint64_t* address = nullptr;  // 32 of them, generic
  bool relaxed = false;     // volatile, .relaxed, atomic: not a race with another such
};

/// Bytes a warp moves, lane by lane.
using LaneBytes = std::array<std::array<std::uint8_t, 32>, warp_lanes>;

}  // namespace microscale::emulator
