// What host and kernels have in common: the shape of a grid, tensors that are copied by boxes, and
// division by numbers that the host knows.
#pragma once

#include <array>
#include <cstdint>

#include "formats/host_device.hpp"

namespace microscale::cuda {

/// Of shared memory: what a thread block of sm_90 may have.
inline constexpr int most_shared_bytes = 232448;

/// Threads of a block, where nothing asks for another number.
inline constexpr int threads_per_block = 256;

struct Launch {
  unsigned grid_x, grid_y, grid_z;
  unsigned threads;  // of a block
  int column_shift;  // of quantizers: log2 of the threads side by side in a row
};

// Tensors of which kernels copy boxes into shared memory by one instruction each (PTX ISA,
// "Tensors"), described on the host.

/// The arguments of cuTensorMapEncodeTiled; dimensions innermost first. What of a box lies outside
/// arrives as zeros.
struct TensorBoxes {
  const void* data = nullptr;            // device memory, at a multiple of 16
  int rank = 1;                          // 1 to 5
  int element_bytes = 1;                 // 1, 2, 4 or 8
  std::array<std::int64_t, 5> size{};    // elements, 1 to 2^32
  std::array<std::int64_t, 5> stride{};  // bytes, multiples of 16 below 2^40; [0] does not count
  std::array<int, 5> box{};              // elements, 1 to 256; those of [0] multiples of 16 bytes
  bool swizzle_128 = false;  // pieces of 16 bytes change places as wgmma reads rows of 128 bytes
};

/// What a kernel is given of it, as a parameter: opaque, of the device that made it.
struct alignas(64) TensorMap {
  std::uint8_t bytes[128];
};

// Division by numbers that the host knows, for kernels: two instructions instead of some twenty
// that wait for each other.

/// n / d for n from 0 to 2^31 - 1 as n * multiplier / 2^shift. With 2^shift at least 2^31 d,
/// rounding the multiplier up adds less than 1 / d to the quotient.
struct Divisor {
  std::uint32_t multiplier;
  std::int32_t shift;

  MICROSCALE_HD constexpr int divide(int n) const {
    return static_cast<int>(std::uint64_t{static_cast<std::uint32_t>(n)} * multiplier >> shift);
  }
};

/// d from 1 to 2^31 - 1.
constexpr Divisor divisor(std::int64_t d) {
  int log2 = 0;
  while (std::int64_t{1} << log2 < d) ++log2;
  const std::uint64_t unit = std::uint64_t{1} << (31 + log2);
  const auto by = static_cast<std::uint64_t>(d);
  return {static_cast<std::uint32_t>(unit / by + (unit % by != 0)), 31 + log2};
}

}  // namespace microscale::cuda
