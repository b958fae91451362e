// What the handlers of wgmma and their decoder agree on.
#pragma once

#include <cstdint>

#include "emulator/tensor/wgmma.hpp"

namespace microscale::emulator {

/// A wgmma.mma_async, as Op::value holds it; its list: D's registers, A's four or its descriptor,
/// B's descriptor.
struct WgmmaInstruction {
  tensor::WgmmaShape shape;
  tensor::WgmmaOptions options;  // but `accumulate`: the predicate Op::c
  bool a_in_registers = false;

  std::int64_t pack() const;
  static WgmmaInstruction unpack(std::int64_t value);
  /// The same number for instructions that may follow each other on one accumulator.
  std::uint32_t accumulator_shape() const {
    return static_cast<std::uint32_t>(shape.n) << 8 | static_cast<std::uint32_t>(shape.k()) << 2 |
           static_cast<std::uint32_t>(shape.d);
  }
};

}  // namespace microscale::emulator
