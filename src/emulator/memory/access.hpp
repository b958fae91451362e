// What the executor says to the memory: who touches which bytes, by which instruction.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "emulator/finding.hpp"

namespace microscale::emulator {

inline constexpr int warp_lanes = 32;
inline constexpr std::uint32_t all_lanes = 0xffff'ffffu;

/// Windows of the 64-bit generic address space. Global memory is below 2^48 (see
/// global_memory.hpp); the others are offsets in their window, which `cvta` adds and removes.
inline constexpr std::uint64_t shared_window =
    0x0100'0000'0000'0000;  // + cta rank << 32 in a cluster
inline constexpr std::uint64_t local_window = 0x0200'0000'0000'0000;
inline constexpr std::uint64_t constant_window = 0x0300'0000'0000'0000;
inline constexpr std::uint64_t param_window = 0x0400'0000'0000'0000;
/// Where functions are, by their number in the module: not to be read or written.
inline constexpr std::uint64_t function_window = 0x0500'0000'0000'0000;
/// Tensor memory of the executing block: lane * 2048 + column * 4. No load or store reaches it.
inline constexpr std::uint64_t tensor_window = 0x0600'0000'0000'0000;
inline constexpr std::uint64_t window_mask = 0xff00'0000'0000'0000;
/// In shared_window: set when the address names a block of the cluster (mapa, cluster windows); an
/// address without it is the executing block's own.
inline constexpr std::uint64_t cluster_flag = 0x0080'0000'0000'0000;

/// Where block `rank` of the cluster has byte `offset` of its shared memory, for every block.
constexpr std::uint64_t cluster_shared(std::uint32_t rank, std::uint64_t offset) {
  return shared_window | cluster_flag | std::uint64_t{rank} << 32 | (offset & 0xffff'ffff);
}

/// Whether an address is of a block of the cluster by its rank, and that rank.
constexpr bool names_block(std::uint64_t address) {
  return (address & (window_mask | cluster_flag)) == (shared_window | cluster_flag);
}
constexpr std::uint32_t rank_of(std::uint64_t address) {
  return static_cast<std::uint32_t>(address >> 32 & 0xffff);
}

/// A warp at an instruction: who touches memory.
struct Agent {
  std::uint32_t block = 0;        // linear number in the grid
  std::uint32_t warp = 0;         // in the block
  std::uint32_t instruction = 0;  // index in the program: named in a finding
  std::uint32_t rank = 0;         // of the block in its cluster
};

/// As PTX says it. `volatile` is relaxed at system scope; `.sc` counts as acq_rel.
enum class Order : std::uint8_t { weak, relaxed, acquire, release, acq_rel };
enum class MemoryScope : std::uint8_t { cta, cluster, gpu, sys };

/// One instruction's access by the lanes of a warp.
struct WarpAccess {
  std::uint32_t lanes = 0;  // bit i: lane i takes part
  int bytes = 0;  // of each lane: 1, 2, 4, 8, 16 or 32; the address must be a multiple of it
  const std::uint64_t* address = nullptr;  // 32 of them, generic
  Order order = Order::weak;  // two strong accesses (not weak) are no race with each other
  MemoryScope scope = MemoryScope::sys;
};

/// Bytes a warp moves, as rows of registers: bytes 4w..4w+3 of lane i are word[w][i]. An access of
/// 1 or 2 bytes uses the low ones of word[0]; a load clears the rest.
struct alignas(64) LaneWords {
  std::array<std::array<std::uint32_t, warp_lanes>, 8> word;
};

enum class AtomicOp : std::uint8_t { exch, cas, add, inc, dec, min, max, bit_and, bit_or, bit_xor };
enum class AtomicType : std::uint8_t {
  b16,
  b32,
  b64,
  b128,
  u32,
  s32,
  u64,
  s64,
  f32,
  f64,
  f16,
  bf16,
  f16x2,
  bf16x2
};
int bytes_of(AtomicType type);

/// Which kind of asynchronous work a group counts (commit / wait of one warp). tcgen05: its
/// products, copies and shifts; tensor_load and tensor_store: tcgen05.ld and st.
enum class AsyncKind : std::uint8_t { cp_async, bulk, wgmma, tcgen05, tensor_load, tensor_store };
inline constexpr std::size_t async_kinds = 6;

/// Which unit touched memory in place of a thread's load or store, for a finding.
enum class Unit : std::uint8_t { none, wgmma, tcgen05, tensor_move };

/// When asynchronous copies land: at once, when something waits for them, or at random before that.
enum class AsyncPolicy : std::uint8_t { eager, latest, random };

/// The executor's names for what memory knows as numbers.
class Places {
 public:
  virtual ~Places() = default;
  /// Kernel, block, thread (of lane 0..31), PTX line and source; kind, message and count untouched.
  virtual Finding at(const Agent& agent, int lane) const = 0;
  /// "PTX line 120 (file.cu:14)", for the other access of a race.
  virtual std::string name(std::uint32_t instruction) const = 0;
  /// "tcgen05.mma".
  virtual std::string opcode(std::uint32_t instruction) const = 0;
};

}  // namespace microscale::emulator
