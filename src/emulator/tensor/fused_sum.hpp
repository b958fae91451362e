// The fused dot product of the matrix units: every term aligned to the largest exponent and cut to
// F fraction bits, summed exactly, rounded once.
#pragma once

#include <cstdint>

#include "emulator/tensor/number.hpp"

namespace microscale::emulator::tensor {

enum class Output : std::uint8_t {
  f32,        // toward zero
  f32_e8m13,  // toward zero, to 13 fraction bits: Hopper's FP8 sums
  f16,        // nearest even
};

/// What NaN results are: every one of them.
inline constexpr std::uint32_t tensor_nan_f32 = 0x7FFFFFFF, tensor_nan_f16 = 0x7FFF;

struct Arithmetic {
  int fraction_bits = 25;     // F: 13, 25 or 35
  int product_fraction = 20;  // fraction bits of a * b: both operands' together
  Output output = Output::f32;
};

/// `value` * 2^`exponent` rounded as `output` says; f16 in the low half. Beyond the largest:
/// infinity. A result of zero is +0.
std::uint32_t round_sum(Output output, std::int64_t value, int exponent);
std::uint32_t nan_of(Output output);
std::uint32_t infinity_of(Output output, bool negative);

/// A row of A or a column of B, `count` numbers along K; `special` where one of them is not finite.
struct Line {
  const std::int32_t* significand = nullptr;
  const std::int32_t* exponent = nullptr;
  const Class* kind = nullptr;
  bool special = false;
};

/// c + sum of a * b * 2^scale in one fused sum; c has 23 (f32) or 10 (f16) fraction bits. `count`:
/// 4, 8, 16 or 32 terms.
std::uint32_t fused_dot(const Arithmetic& how, const Line& a, const Line& b, int count, int scale,
                        const Number& c);

/// `Rows` lines of up to 32 numbers.
template <int Rows>
struct Lines {
  alignas(64) std::int32_t significand[Rows][32];
  alignas(64) std::int32_t exponent[Rows][32];
  Class kind[Rows][32];
  bool special[Rows] = {};

  void set(int row, int k, const Number& number) {
    significand[row][k] = number.significand;
    exponent[row][k] = number.exponent;
    kind[row][k] = number.kind;
    special[row] |= number.kind != Class::finite;
  }
  /// From column `first` on.
  Line line(int row, int first = 0) const {
    return {significand[row] + first, exponent[row] + first, kind[row] + first, special[row]};
  }
};

}  // namespace microscale::emulator::tensor
