#include "emulator/tensor/exact_sum.hpp"

#include <bit>
#include <cmath>

namespace microscale::emulator::tensor {

void ExactSum::add(std::int64_t significand, int exponent) {
  const int at = exponent - lowest;
  const __int128 shifted = static_cast<__int128>(significand) << (at % 32);
  auto index = static_cast<std::size_t>(at / 32);
  const auto low = static_cast<std::uint64_t>(shifted);
  word_[index] += static_cast<std::int64_t>(low & 0xFFFFFFFFu);
  word_[index + 1] += static_cast<std::int64_t>(low >> 32);
  word_[index + 2] += static_cast<std::int64_t>(shifted >> 64);
}

void ExactSum::add(double value) {
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);
  if (value != 0) add(static_cast<std::int64_t>(std::ldexp(fraction, 53)), exponent - 53);
}

double ExactSum::value() const {
  std::array<std::int64_t, words> digits = word_;
  std::int64_t carry = 0;
  const auto settle = [&] {
    carry = 0;
    for (std::int64_t& digit : digits) {
      const std::int64_t sum = digit + carry;
      digit = sum & 0xFFFFFFFF;
      carry = sum >> 32;
    }
  };
  settle();
  const bool negative = carry < 0;
  if (negative) {
    for (std::int64_t& digit : digits) digit = -digit;
    settle();
  }
  int top = words - 1;
  while (top >= 0 && digits[static_cast<std::size_t>(top)] == 0) --top;
  if (top < 0) return 0;
  // 63 or more leading bits and a sticky one make the nearest double right.
  unsigned __int128 leading = 0;
  bool sticky = false;
  for (int i = 0; i < words; ++i) {
    const auto digit = static_cast<std::uint64_t>(digits[static_cast<std::size_t>(i)]);
    if (i <= top - 3)
      sticky |= digit != 0;
    else if (i <= top)
      leading |= static_cast<unsigned __int128>(digit) << (32 * (i - top + 2));
  }
  int exponent = lowest + 32 * (top - 2);
  const auto high = static_cast<std::uint64_t>(leading >> 32);
  const int spare = std::countl_zero(high);  // below 32
  leading <<= spare;
  exponent -= spare;
  const auto mantissa = static_cast<std::uint64_t>(leading >> 32);
  sticky |= static_cast<std::uint32_t>(leading) != 0;
  std::uint64_t kept = mantissa >> 11;
  const std::uint64_t rest = mantissa & 0x7FF;
  if (rest > 0x400 || (rest == 0x400 && (sticky || (kept & 1)))) ++kept;
  const double magnitude = std::ldexp(static_cast<double>(kept), exponent + 32 + 11);
  return negative ? -magnitude : magnitude;
}

}  // namespace microscale::emulator::tensor
