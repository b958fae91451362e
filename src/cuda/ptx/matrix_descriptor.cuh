// What wgmma is told of a matrix in shared memory (PTX ISA, "Matrix Descriptor"): 64 bits that say
// where it begins, how far apart its groups of eight rows lie, and how its chunks of 16 bytes are
// permuted. sm_90a.
#pragma once

#include <cstdint>

namespace microscale::ptx {

/// Chunks of 16 bytes change places within rows of that many bytes, as tensor maps of the same
/// swizzle put them: chunk c of row r stands at c ^ (r % 8) for 128 bytes.
enum class MatrixSwizzle : std::uint64_t { none = 0, bytes128 = 1, bytes64 = 2, bytes32 = 3 };

/// `start`: 32-bit shared address, a multiple of 16; with a swizzle its pattern (1024, 512 or 256
/// bytes) begins at a multiple of its size. Offsets in bytes, multiples of 16. K-major: `stride`
/// from eight rows to the next eight; `leading` from one chunk along K to the next, without a
/// swizzle only. MN-major: see emulator/tensor/matrix_descriptor.hpp, which has both as formulas.
__host__ __device__ constexpr std::uint64_t matrix_descriptor(std::uint32_t start,
                                                              std::uint32_t leading,
                                                              std::uint32_t stride,
                                                              MatrixSwizzle swizzle) {
  return static_cast<std::uint64_t>(start >> 4 & 0x3FFF) |
         static_cast<std::uint64_t>(leading >> 4 & 0x3FFF) << 16 |
         static_cast<std::uint64_t>(stride >> 4 & 0x3FFF) << 32 |
         static_cast<std::uint64_t>(swizzle) << 62;
}

/// K-major rows of 128 bytes, swizzled, one behind the other from a multiple of 1024 on.
__host__ __device__ constexpr std::uint64_t matrix_descriptor_rows128(std::uint32_t start) {
  return matrix_descriptor(start, 16, 1024, MatrixSwizzle::bytes128);
}

/// The same matrix, `bytes` further on: 32 are the next K of an instruction.
__host__ __device__ constexpr std::uint64_t advance(std::uint64_t descriptor, std::uint32_t bytes) {
  return descriptor + (bytes >> 4);
}

}  // namespace microscale::ptx
