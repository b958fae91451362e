#include "emulator/tensor/descriptor_check.hpp"

#include <fmt/format.h>

#include "emulator/tensor/matrix_descriptor.hpp"

namespace microscale::emulator::tensor {
namespace {

// Bits 14-15, 30-31, 46-48 and 52-61.
constexpr std::uint64_t tcgen05_reserved =
    std::uint64_t{3} << 14 | std::uint64_t{3} << 30 | std::uint64_t{0xFF} << 53;
constexpr std::uint64_t reserved_bits = std::uint64_t{3} << 14 | std::uint64_t{3} << 30 |
                                        std::uint64_t{7} << 46 | std::uint64_t{0x3FF} << 52;

/// Where it begins in the pattern of its swizzle; `along`: bytes that one row of it must hold.
DescriptorProblem placement_problem(const MatrixDescriptor& d, std::uint32_t along, bool mn_major) {
  if (d.swizzle == Swizzle::none) return {};
  const int mode = static_cast<int>(d.swizzle);
  const std::uint32_t row = 16u << mode, phases = (1u << mode) - 1;
  const std::uint32_t phase = d.start >> 7 & phases, wanted = d.base_offset & phases;
  if (phase != wanted || d.start % 128 >= row)
    return {true,
            fmt::format("begins at {:#x}, {} bytes into the pattern of a {}-byte swizzle, and "
                        "its base offset says {}",
                        d.start, d.start % (8 * row) / row * row, row, 128 * wanted)};
  // What one row of the pattern holds of the matrix must not run over its end.
  const std::uint32_t offset = d.start % row;
  if (offset != 0 && offset + along > row)
    return {true, fmt::format("begins {} bytes into a row of {} bytes of its swizzle, and {} bytes "
                              "along {} do not fit behind that",
                              offset, row, along, mn_major ? "M or N" : "K")};
  return {};
}

}  // namespace

DescriptorProblem descriptor_problem(std::uint64_t bits, int lines, bool mn_major) {
  if (bits & reserved_bits)
    return {false, fmt::format("has reserved bits set: {:#x}", bits & reserved_bits)};
  return placement_problem(wgmma_descriptor(bits),
                           mn_major ? 2 * static_cast<std::uint32_t>(lines) : 32, mn_major);
}

DescriptorProblem tcgen05_descriptor_problem(std::uint64_t bits, int lines, bool mn_major,
                                             int element_bytes) {
  if (bits & tcgen05_reserved)
    return {false, fmt::format("has reserved bits set: {:#x}", bits & tcgen05_reserved)};
  if ((bits >> 46 & 7) != 1)
    return {false, fmt::format("has {} in bits 48-46, where tcgen05 wants 1", bits >> 46 & 7)};
  if (bits >> 52 & 1)
    return {false, "has bit 52 set, an absolute leading offset, which this machine does not model"};
  const auto mode = static_cast<int>(bits >> 61);
  if (mode != 0 && mode != 2 && mode != 4 && mode != 6)
    return {false, fmt::format("has the swizzle {}, which this machine does not model: 0 none, 2 "
                               "128 bytes, 4 64 bytes, 6 32 bytes",
                               mode)};
  return placement_problem(tcgen05_descriptor(bits),
                           mn_major ? static_cast<std::uint32_t>(lines * element_bytes) : 32,
                           mn_major);
}

}  // namespace microscale::emulator::tensor
