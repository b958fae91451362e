// mma.sync of one warp: registers in, registers out. Knows no executor.
#pragma once

#include <array>
#include <cstdint>

#include "emulator/tensor/mma_shape.hpp"
#include "emulator/tensor/scale_lanes.hpp"

namespace microscale::emulator::tensor {

/// Registers as rows of 32 lanes; as many as a_registers(), b_registers() and result_registers()
/// say.
struct MmaOperands {
  std::array<const std::uint32_t*, 4> a{};
  std::array<const std::uint32_t*, 4> b{};
  std::array<const std::uint32_t*, 4> c{};
  const std::uint32_t* scale_a = nullptr;  // block-scaled kinds only, as all that follows
  const std::uint32_t* scale_b = nullptr;
  ScaleSelector select_a, select_b;
};

/// What hardware leaves undefined or would not say. Masks have bit i for lane i.
struct MmaFindings {
  std::uint32_t padding_a = 0, padding_b = 0;           // non-zero bits beside an FP4 or FP6 code
  std::uint32_t scale_sign_a = 0, scale_sign_b = 0;     // bit 7 of a ue4m3 scale that is used
  bool bad_selector_a = false, bad_selector_b = false;  // nothing was computed

  bool any() const {
    return padding_a || padding_b || scale_sign_a || scale_sign_b || bad_selector_a ||
           bad_selector_b;
  }
};

/// Writes result_registers(shape, shape.d) rows; they may be those of C. Padding is ignored. Not
/// for f64: see mma_double.hpp.
MmaFindings mma(const MmaShape& shape, Generation generation, const MmaOperands& operands,
                const std::array<std::uint32_t*, 4>& d);

}  // namespace microscale::emulator::tensor
