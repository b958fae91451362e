// What the handlers of tcgen05 and their decoder agree on.
#pragma once

#include <cstdint>

#include "emulator/tensor/tcgen05.hpp"
#include "emulator/tensor/tensor_fragments.hpp"

namespace microscale::emulator {

/// A tcgen05.mma, as Op::value holds it. Op::c: the predicate of enable-input-d. Op::list: the rows
/// of D, A, B, the descriptor, and of the scales of A and B, each followed by an offset (0 where
/// the operand is no address).
struct Tcgen05Mma {
  enum Operand : std::uint32_t { d, a, b, descriptor, scale_a, scale_b, operands };
  tensor::Tcgen05Name name;

  std::int64_t pack() const {
    return static_cast<std::int64_t>(name.kind) | name.blocks << 4 | name.scale_block << 8 |
           static_cast<std::int64_t>(name.a_in_tensor) << 16;
  }
  static Tcgen05Mma unpack(std::int64_t value) {
    return {{static_cast<tensor::Tcgen05Kind>(value & 15), static_cast<int>(value >> 4 & 15),
             static_cast<int>(value >> 8 & 255), (value >> 16 & 1) != 0}};
  }
};

/// A tensor memory address: lane in the upper half, column in the lower.
struct TensorAddress {
  std::uint32_t lane = 0, column = 0;
  constexpr explicit TensorAddress(std::uint32_t bits) : lane(bits >> 16), column(bits & 0xFFFF) {}
};

}  // namespace microscale::emulator
