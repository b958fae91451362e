// The 64-bit descriptors of a matrix in shared memory, wgmma's and tcgen05's: where each of its
// 16-byte chunks lies.
// K-major: a chunk runs along K. MN-major (16-bit elements only): along M or N.
#pragma once

#include <cstdint>

namespace microscale::emulator::tensor {

/// Bytes of the swizzle's row; the value is log2(bytes / 16): address bits 4.. are XORed with as
/// many bits from 7 on.
enum class Swizzle : std::uint8_t { none = 0, bytes32 = 1, bytes64 = 2, bytes128 = 3 };

struct MatrixDescriptor {
  std::uint32_t start = 0;           // byte address in shared memory, a multiple of 16
  std::uint32_t leading_offset = 0;  // bytes, a multiple of 16
  std::uint32_t stride_offset = 0;   // bytes, a multiple of 16
  std::uint32_t base_offset = 0;     // 0-7: 128-byte row of the swizzle pattern at its start
  Swizzle swizzle = Swizzle::none;
  bool operator==(const MatrixDescriptor&) const = default;
};

constexpr MatrixDescriptor wgmma_descriptor(std::uint64_t bits) {
  const auto field = [bits](int first) {
    return static_cast<std::uint32_t>(bits >> first & 0x3FFF) << 4;
  };
  constexpr Swizzle modes[4] = {Swizzle::none, Swizzle::bytes128, Swizzle::bytes64,
                                Swizzle::bytes32};
  return {field(0), field(16), field(32), static_cast<std::uint32_t>(bits >> 49 & 7),
          modes[bits >> 62]};
}

constexpr std::uint64_t wgmma_descriptor_bits(const MatrixDescriptor& d) {
  constexpr std::uint64_t modes[4] = {0, 3, 2, 1};
  return static_cast<std::uint64_t>(d.start >> 4 & 0x3FFF) |
         static_cast<std::uint64_t>(d.leading_offset >> 4 & 0x3FFF) << 16 |
         static_cast<std::uint64_t>(d.stride_offset >> 4 & 0x3FFF) << 32 |
         static_cast<std::uint64_t>(d.base_offset & 7) << 49 |
         modes[static_cast<int>(d.swizzle)] << 62;
}

/// tcgen05's (PTX ISA, "Shared memory descriptor"): the same fields, but for three bits of swizzle.
/// What else it may not say: tcgen05_descriptor_problem.
constexpr MatrixDescriptor tcgen05_descriptor(std::uint64_t bits) {
  MatrixDescriptor d = wgmma_descriptor(bits);
  const auto mode = static_cast<int>(bits >> 61);
  d.swizzle = mode == 2   ? Swizzle::bytes128
              : mode == 4 ? Swizzle::bytes64
              : mode == 6 ? Swizzle::bytes32
                          : Swizzle::none;
  return d;
}

constexpr std::uint64_t tcgen05_descriptor_bits(const MatrixDescriptor& d) {
  constexpr std::uint64_t modes[4] = {0, 6, 4, 2};
  return (wgmma_descriptor_bits(d) & ~(std::uint64_t{3} << 62)) | std::uint64_t{1} << 46 |
         modes[static_cast<int>(d.swizzle)] << 61;
}

constexpr std::uint32_t swizzled(const MatrixDescriptor& d, std::uint32_t address) {
  const std::uint32_t mask = (1u << static_cast<int>(d.swizzle)) - 1;
  const std::uint32_t phase = ((address >> 7) - d.base_offset) & mask;
  return address ^ phase << 4;
}

/// Address of 16-byte chunk `chunk` along K of row `row` (of A, or column of B), K-major.
constexpr std::uint32_t k_major_chunk(const MatrixDescriptor& d, std::uint32_t row,
                                      std::uint32_t chunk) {
  std::uint32_t address = d.start + row / 8 * d.stride_offset;
  if (d.swizzle == Swizzle::none)
    address += row % 8 * 16 + chunk * d.leading_offset;
  else
    address += row % 8 * (16u << static_cast<int>(d.swizzle)) + chunk * 16;
  return swizzled(d, address);
}

/// Address of the 16-byte chunk `chunk` along M or N (8 elements) at K index `k`, MN-major.
constexpr std::uint32_t mn_major_chunk(const MatrixDescriptor& d, std::uint32_t chunk,
                                       std::uint32_t k) {
  if (d.swizzle == Swizzle::none)
    return d.start + chunk * d.stride_offset + k % 8 * 16 + k / 8 * d.leading_offset;
  const std::uint32_t chunks = 1u << static_cast<int>(d.swizzle);
  return swizzled(d, d.start + chunk % chunks * 16 + chunk / chunks * d.leading_offset +
                         k % 8 * chunks * 16 + k / 8 * d.stride_offset);
}

}  // namespace microscale::emulator::tensor
