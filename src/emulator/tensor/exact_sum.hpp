// A sum of products without any rounding: the oracle that the matrix units' arithmetic is held
// against.
#pragma once

#include <array>
#include <cstdint>

namespace microscale::emulator::tensor {

/// Fixed point from 2^-320 to 2^384.
class ExactSum {
 public:
  /// Adds significand * 2^exponent; -320 <= exponent and |significand| * 2^exponent < 2^380.
  void add(std::int64_t significand, int exponent);
  void add(double value);  // finite
  /// The nearest double, ties to even; what underflows is 0.
  double value() const;

 private:
  static constexpr int lowest = -320, words = 22;
  std::array<std::int64_t, words> word_{};  // 32 bits each, with carries not yet made
};

}  // namespace microscale::emulator::tensor
