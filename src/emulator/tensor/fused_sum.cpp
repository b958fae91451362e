// In 32-bit integers: a product has at most 22 bits, aligned it has F + 2.
#include "emulator/tensor/fused_sum.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>

namespace microscale::emulator::tensor {
namespace {

#if defined(__x86_64__)
#define MICROSCALE_AVX2 __attribute__((target("avx2")))
#endif

/// Largest exponent of a product, at least `at_least`.
template <int Count>
[[gnu::always_inline]] inline int largest_exponent(const Line& a, const Line& b, int at_least) {
  int largest = at_least;
  for (int i = 0; i < Count; ++i) {
    const int exponent = a.exponent[i] + b.exponent[i];
    largest = exponent > largest ? exponent : largest;
  }
  return largest;
}

/// Sum of the products, each shifted up by `up` and cut to a multiple of 2^(`largest` - its
/// exponent).
template <int Count>
[[gnu::always_inline]] inline std::int64_t aligned_sum(const Line& a, const Line& b, int largest,
                                                       int up) {
  std::int32_t low = 0, high = 0;  // halves apart: 32 terms of 27 bits do not fit one
  for (int i = 0; i < Count; ++i) {
    const std::int32_t product = a.significand[i] * b.significand[i];
    const std::int32_t sign = product >> 31;
    const auto magnitude = static_cast<std::uint32_t>((product ^ sign) - sign) << up;
    int distance = largest - (a.exponent[i] + b.exponent[i]);
    distance = distance < 31 ? distance : 31;
    const auto cut = static_cast<std::int32_t>(magnitude >> distance);
    const std::int32_t term = (cut ^ sign) - sign;
    low += term & 0xFFFF;
    high += term >> 16;
  }
  return static_cast<std::int64_t>(high) * 65536 + low;
}

struct Aligned {
  std::int64_t sum = 0;
  int largest = 0;
};

template <int Count>
[[gnu::always_inline]] inline Aligned sum_products(const Arithmetic& how, const Line& a,
                                                   const Line& b, int at_least) {
  const int largest = largest_exponent<Count>(a, b, at_least);
  return {aligned_sum<Count>(a, b, largest, how.fraction_bits - how.product_fraction), largest};
}

[[gnu::always_inline]] inline Aligned sum_of(const Arithmetic& how, const Line& a, const Line& b,
                                             int count, int at_least) {
  switch (count) {
    case 4:
      return sum_products<4>(how, a, b, at_least);
    case 8:
      return sum_products<8>(how, a, b, at_least);
    case 16:
      return sum_products<16>(how, a, b, at_least);
    default:
      return sum_products<32>(how, a, b, at_least);
  }
}

Aligned sum_portable(const Arithmetic& how, const Line& a, const Line& b, int count, int at_least) {
  return sum_of(how, a, b, count, at_least);
}

#ifdef MICROSCALE_AVX2
MICROSCALE_AVX2 Aligned sum_avx2(const Arithmetic& how, const Line& a, const Line& b, int count,
                                 int at_least) {
  return sum_of(how, a, b, count, at_least);
}
const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
#endif

/// NaN or an infinity among the operands decides alone.
std::uint32_t special_dot(Output output, const Line& a, const Line& b, int count, const Number& c) {
  bool nan = c.kind == Class::nan;
  bool up = c.kind == Class::infinite && c.significand > 0;
  bool down = c.kind == Class::infinite && c.significand < 0;
  for (int i = 0; i < count; ++i) {
    if (a.kind[i] == Class::finite && b.kind[i] == Class::finite) continue;
    const bool zero = (a.kind[i] == Class::finite && a.significand[i] == 0) ||
                      (b.kind[i] == Class::finite && b.significand[i] == 0);
    if (a.kind[i] == Class::nan || b.kind[i] == Class::nan || zero) {
      nan = true;
    } else {
      ((a.significand[i] < 0) == (b.significand[i] < 0) ? up : down) = true;
    }
  }
  if (nan || (up && down)) return nan_of(output);
  return infinity_of(output, down);
}

/// `magnitude` * 2^shift, cut; nearest even where `nearest`.
std::uint64_t shifted(std::uint64_t magnitude, int shift, bool nearest) {
  if (shift >= 0) return magnitude << shift;
  if (shift < -63) return 0;
  const std::uint64_t quotient = magnitude >> -shift;
  if (!nearest) return quotient;
  const std::uint64_t rest = magnitude & ((std::uint64_t{1} << -shift) - 1);
  const std::uint64_t half = std::uint64_t{1} << (-shift - 1);
  return quotient + (rest > half || (rest == half && (quotient & 1)));
}

}  // namespace

std::uint32_t nan_of(Output output) {
  return output == Output::f16 ? tensor_nan_f16 : tensor_nan_f32;
}

std::uint32_t infinity_of(Output output, bool negative) {
  return output == Output::f16 ? (negative ? 0xFC00u : 0x7C00u)
                               : (negative ? 0xFF800000u : 0x7F800000u);
}

std::uint32_t round_sum(Output output, std::int64_t value, int exponent) {
  if (value == 0) return 0;
  const bool negative = value < 0, half = output == Output::f16;
  const int fraction = half ? 10 : 23, smallest = half ? -14 : -126, largest = half ? 15 : 127;
  const auto magnitude = static_cast<std::uint64_t>(negative ? -value : value);
  const int leading = 63 - std::countl_zero(magnitude) + exponent;
  if (leading > largest) return infinity_of(output, negative);
  const int base = std::max(leading, smallest);
  const auto rounded =
      static_cast<std::uint32_t>(shifted(magnitude, exponent - base + fraction, half));
  // A significand without its leading one leaves the field at 0; one that rounds up carries into
  // it.
  std::uint32_t bits = (static_cast<std::uint32_t>(base - smallest) << fraction) + rounded;
  if (output == Output::f32_e8m13) bits &= ~0x3FFu;
  if (bits == 0) return 0;
  return bits | (negative ? (half ? 0x8000u : 0x80000000u) : 0u);
}

std::uint32_t fused_dot(const Arithmetic& how, const Line& a, const Line& b, int count, int scale,
                        const Number& c) {
  if (a.special || b.special || c.kind != Class::finite) {
    bool any = c.kind != Class::finite;
    for (int i = 0; i < count; ++i) any |= a.kind[i] != Class::finite || b.kind[i] != Class::finite;
    if (any) return special_dot(how.output, a, b, count, c);
  }
  const int at_least = std::max(c.exponent, smallest_alignment) - scale;
#ifdef MICROSCALE_AVX2
  const Aligned products =
      has_avx2 ? sum_avx2(how, a, b, count, at_least) : sum_portable(how, a, b, count, at_least);
#else
  const Aligned products = sum_portable(how, a, b, count, at_least);
#endif
  const int c_fraction = how.output == Output::f16 ? 10 : 23;
  const int up = how.fraction_bits - c_fraction + c.exponent - scale - products.largest;
  const auto c_magnitude = static_cast<std::uint64_t>(std::abs(c.significand));
  const auto c_term = static_cast<std::int64_t>(shifted(c_magnitude, up, false));
  const std::int64_t sum = products.sum + (c.significand < 0 ? -c_term : c_term);
  return round_sum(how.output, sum, products.largest + scale - how.fraction_bits);
}

}  // namespace microscale::emulator::tensor
