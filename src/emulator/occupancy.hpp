// How many blocks of a kernel one streaming multiprocessor holds at a time, and what stops the
// next.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace microscale::emulator {

/// What one SM of a GPU has. Bytes; threads are in warps of 32.
struct MultiprocessorLimits {
  std::string_view gpu;              // "h200"
  std::string_view name;             // "H200 SXM"
  int major = 0, minor = 0;          // compute capability
  int multiprocessors = 0;           // of the whole GPU
  int warps = 0;                     // resident
  int blocks = 0;                    // resident
  std::int64_t shared = 0;           // to divide among blocks
  std::int64_t shared_of_block = 0;  // the most one block may ask for

  static constexpr int registers = 65536;                // 32-bit
  static constexpr int register_unit = 256;              // a warp's registers are rounded up to it
  static constexpr int partitions = 4;                   // a warp's registers lie in one
  static constexpr std::int64_t shared_reserved = 1024;  // by the system, for every block
  static constexpr std::int64_t shared_unit = 128;
};

const std::vector<MultiprocessorLimits>& known_gpus();
/// Throws Error{invalid_argument} naming the known ones.
const MultiprocessorLimits& limits_of(std::string_view gpu);

struct KernelUse {
  int registers = 0;        // of a thread, 1 to 255
  std::int64_t shared = 0;  // bytes of a block, static and dynamic
  int threads = 0;          // of a block, 1 to 1024
};

enum class OccupancyLimit : std::uint8_t { warps, blocks, registers, shared };
std::string_view name_of(OccupancyLimit limit);  // "shared memory"

struct Occupancy {
  /// Blocks that each limit alone would allow, by OccupancyLimit.
  std::array<int, 4> allowed{};
  int blocks = 0, warps = 0;            // resident
  double share = 0;                     // of the warps an SM can hold
  std::vector<OccupancyLimit> binding;  // those that allow no more than `blocks`
};

/// Throws Error{invalid_argument} for what no kernel can ask for. 0 blocks: it cannot be launched.
Occupancy occupancy(const MultiprocessorLimits& limits, const KernelUse& use);

}  // namespace microscale::emulator
