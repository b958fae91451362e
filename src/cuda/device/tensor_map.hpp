// Tensors of which kernels copy boxes into shared memory by one instruction each (PTX ISA,
// "Tensors"), described on the host.
#pragma once

#include <array>
#include <cstdint>

namespace microscale::cuda {

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

}  // namespace microscale::cuda
