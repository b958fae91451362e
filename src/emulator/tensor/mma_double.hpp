// mma.sync of f64, whose registers are rows of 64 bits.
#pragma once

#include <array>
#include <cstdint>

#include "emulator/tensor/mma_shape.hpp"

namespace microscale::emulator::tensor {

/// Rows of 32 lanes; as many as a_registers(), b_registers() and result_registers() say.
struct MmaDoubles {
  std::array<const std::uint64_t*, 8> a{};
  std::array<const std::uint64_t*, 4> b{};
  std::array<const std::uint64_t*, 4> c{};
};

/// Each element begins with C's and takes one fused multiply-add for each k, in order, rounded as
/// the shape says. A NaN is 0x7FF8000000000000. The rows of `d` may be those of C.
void mma_double(const MmaShape& shape, const MmaDoubles& operands,
                const std::array<std::uint64_t*, 4>& d);

}  // namespace microscale::emulator::tensor
