// What the handlers of matrix instructions and their decoder agree on.
#pragma once

#include <cstdint>

#include "emulator/machine/warp.hpp"
#include "emulator/tensor/ldmatrix_fragments.hpp"
#include "emulator/tensor/mma_shape.hpp"

namespace microscale::emulator {

/// An mma, as Op::value holds it.
struct MatrixInstruction {
  tensor::MmaShape shape;
  tensor::Generation generation = tensor::Generation::blackwell;

  std::int64_t pack() const;
  static MatrixInstruction unpack(std::int64_t value);
};

/// A move, as Op::mode holds it.
constexpr std::uint8_t pack_move(const tensor::MatrixMove& move) {
  return static_cast<std::uint8_t>(static_cast<int>(move.shape) |
                                   static_cast<int>(move.format) << 2 | (move.count - 1) << 4 |
                                   move.transposed << 6);
}
constexpr tensor::MatrixMove unpack_move(std::uint8_t mode) {
  return {static_cast<tensor::MatrixShape>(mode & 3), static_cast<tensor::RowFormat>(mode >> 2 & 3),
          (mode >> 4 & 3) + 1, (mode >> 6 & 1) != 0};
}

/// For .aligned instructions that all 32 lanes must execute: next once they are here; else wait, or
/// a finding that names who is missing.
Step gather_whole_warp(const Op& op, Warp& warp, std::uint32_t lanes);

}  // namespace microscale::emulator
