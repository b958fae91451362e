#include "emulator/tensor/descriptor_check.hpp"

#include <fmt/format.h>

#include "emulator/tensor/matrix_descriptor.hpp"

namespace microscale::emulator::tensor {
namespace {

// Bits 14-15, 30-31, 46-48 and 52-61.
constexpr std::uint64_t reserved_bits = std::uint64_t{3} << 14 | std::uint64_t{3} << 30 |
                                        std::uint64_t{7} << 46 | std::uint64_t{0x3FF} << 52;

}  // namespace

DescriptorProblem descriptor_problem(std::uint64_t bits, int lines, bool mn_major) {
  if (bits & reserved_bits)
    return {false, fmt::format("has reserved bits set: {:#x}", bits & reserved_bits)};
  const MatrixDescriptor d = wgmma_descriptor(bits);
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
  const std::uint32_t along = mn_major ? 2 * static_cast<std::uint32_t>(lines) : 32;
  const std::uint32_t offset = d.start % row;
  if (offset != 0 && offset + along > row)
    return {true, fmt::format("begins {} bytes into a row of {} bytes of its swizzle, and {} bytes "
                              "along {} do not fit behind that",
                              offset, row, along, mn_major ? "M or N" : "K")};
  return {};
}

}  // namespace microscale::emulator::tensor
