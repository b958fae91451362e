// An independent model of an element type: its list of values and nothing else. Codes are found by
// comparing distances in double precision, never by looking at bits.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "microscale/numerics.hpp"

namespace microscale::test {

/// Non-negative finite values in the order of their codes 0, 1, 2, ...
using ValueTable = std::vector<double>;

inline ValueTable make_float_table(int exponent_bits, int mantissa_bits, int bias, int codes) {
  ValueTable table;
  for (int code = 0; code < codes; ++code) {
    const int exponent = code >> mantissa_bits, mantissa = code & ((1 << mantissa_bits) - 1);
    const double fraction = static_cast<double>(mantissa) / (1 << mantissa_bits);
    table.push_back(exponent == 0 ? std::ldexp(fraction, 1 - bias)
                                  : std::ldexp(1 + fraction, exponent - bias));
  }
  (void)exponent_bits;
  return table;
}

/// Code of |value| (finite or infinite), by the definition of each rounding.
inline int model_code(const ValueTable& table, double value, Rounding rounding,
                      unsigned random16 = 0) {
  const double magnitude = std::fabs(value);
  const int last = static_cast<int>(table.size()) - 1;
  if (magnitude >= table.back()) return last;
  int low = 0;
  while (table[static_cast<std::size_t>(low) + 1] <= magnitude) ++low;
  const double below = table[static_cast<std::size_t>(low)];
  const double above = table[static_cast<std::size_t>(low) + 1];
  const double fraction = (magnitude - below) / (above - below);  // exact: both are short
  switch (rounding) {
    case Rounding::toward_zero:
      return low;
    case Rounding::nearest_away:
      return low + (fraction >= 0.5);
    case Rounding::nearest_toward_zero:
      return low + (fraction > 0.5);
    case Rounding::stochastic:
      return low + (std::floor(fraction * 65536) + random16 >= 65536);
    case Rounding::nearest_even:
      break;
  }
  return low + (fraction > 0.5 || (fraction == 0.5 && low % 2 == 1));
}

/// FNV-1a over bytes, to pin a large output with one number.
class Digest {
 public:
  void add(std::uint8_t byte) { value_ = (value_ ^ byte) * 0x100000001B3u; }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xCBF29CE484222325u;
};

}  // namespace microscale::test
