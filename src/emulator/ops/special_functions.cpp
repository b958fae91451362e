// Bits to bits, in integers: every cut below is one that the hardware makes.
#include "emulator/ops/special_functions.hpp"

#include <bit>
#include <cmath>

#include "emulator/ops/approx_tables.hpp"
#include "formats/half.hpp"

namespace microscale::emulator {
namespace {

using u32 = std::uint32_t;
using i64 = std::int64_t;

constexpr u32 infinity = 0x7f800000u, hidden = 1u << 23, fraction_mask = hidden - 1;
constexpr u32 sign_mask = 0x80000000u, one = 0x3f800000u;
constexpr int bias = 127;

struct Float {
  u32 sign;      // in place
  int exponent;  // biased
  u32 fraction;
};

Float split(u32 x) { return {x & sign_mask, static_cast<int>(x >> 23 & 255), x & fraction_mask}; }

bool is_nan(Float x) { return x.exponent == 255 && x.fraction != 0; }

/// x^2 / 2^19 of 17 bits as the unit squares: without the products of two bits that weigh less than
/// 2^18 together. Those of bits 9 and up are all there; a low bit's count twice where they count.
u32 square(u32 x) {
  const u32 high = x >> 9, low = x & 511;
  u32 sum = high * high >> 1;
  for (u32 bit = 1; bit < 8; ++bit) sum += low >> (9 - bit) & (0u - (high >> bit & 1));
  return sum;
}

struct Terms {
  int constant, quadratic;  // how far c0 and the quadratic product are shifted left
  i64 round;                // what is added before the sum is cut
};

/// c0 + c1 x + c2 x^2 for the low 17 bits of `fraction`, in the row that the bits above choose.
i64 parabola(const Parabola* rows, u32 fraction, Terms terms) {
  const Parabola& row = rows[fraction >> 17];
  const u32 x = fraction & 0x1ffff;
  return (i64{row.c0} << terms.constant) + i64{row.c1} * x +
         (i64{row.c2} * square(x) << terms.quadratic) + terms.round;
}

/// A float of that biased exponent whose significand has 23 bits behind the point; 2 carries.
u32 join(u32 sign, int exponent, i64 significand) {
  if (significand >> 24) significand >>= 1, ++exponent;
  if (exponent >= 255) return sign | infinity;
  if (exponent <= 0) return sign;
  return sign | static_cast<u32>(exponent) << 23 | (static_cast<u32>(significand) & fraction_mask);
}

/// A positive fixed-point number with `point` bits behind the point, cut to 24 significant bits.
u32 normalized(u32 sign, i64 value, int point) {
  const int top = 63 - std::countl_zero(static_cast<std::uint64_t>(value));
  const i64 significand = top > 23 ? value >> (top - 23) : value << (23 - top);
  return join(sign, bias + top - point, significand);
}

/// |x| * 2^up with 23 bits behind the point, the rest cut off; x is finite and `up` small.
std::uint64_t fixed(Float x, int up) {
  if (x.exponent == 0) return 0;
  const int shift = x.exponent - bias + up;
  const std::uint64_t significand = x.fraction | hidden;
  if (shift >= 0) return shift < 40 ? significand << shift : 0;  // beyond: no bit of interest left
  return shift > -24 ? significand >> -shift : 0;
}

/// Which of tanh_rows cover [2^e, 2^(e+1)): 2^split of them, equally wide.
struct Octave {
  int first, split;
};
constexpr Octave tanh_octaves[11] = {{0, 0},  {1, 0},  {2, 0},  {3, 1},  {5, 1}, {7, 2},
                                     {11, 2}, {15, 2}, {19, 3}, {27, 4}, {43, 3}};

// In quarter turns: the quadrant says which way the table is read, and the sign. A cosine is the
// sine a quarter further.
u32 sine(Float x, bool cosine) {
  if (x.exponent == 255) return canonical_nan_f32;
  const std::uint64_t quarters = fixed(x, 2);
  u32 quadrant = static_cast<u32>(quarters >> 23) & 3;
  u32 fraction = static_cast<u32>(quarters) & fraction_mask;
  u32 sign = x.sign;
  if (cosine) ++quadrant, sign = 0;
  if (quadrant & 1) fraction = ~fraction & fraction_mask;
  if (quadrant & 2) sign ^= sign_mask;
  const i64 sum = parabola(sin_rows, fraction, {11, 0, 0});
  return sum > 0 ? normalized(sign, sum, 37) : sign;
}

}  // namespace

// The whole part of the operand becomes the exponent. Below zero the fraction that counts up from
// the whole number below is the ones' complement, 2^-23 short of it.
u32 special_ex2(u32 bits) {
  const Float x = split(bits);
  if (is_nan(x)) return canonical_nan_f32;
  if (x.exponent >= bias + 8) return x.sign ? 0 : infinity;
  const auto magnitude = static_cast<u32>(fixed(x, 0));
  int whole = static_cast<int>(magnitude >> 23);
  u32 fraction = magnitude & fraction_mask;
  if (x.sign) {
    whole = -whole;
    if (fraction) --whole, fraction = ~fraction & fraction_mask;
  }
  return join(0, bias + whole, parabola(ex2_rows, fraction, {13, 0, 0x77e2}) >> 15);
}

// The exponent is added in front of the parabola's 36 bits; a negative sum is complemented, not
// negated.
u32 special_lg2(u32 bits) {
  const Float x = split(bits);
  if (is_nan(x)) return canonical_nan_f32;
  if (x.exponent == 0) return sign_mask | infinity;
  if (x.sign) return canonical_nan_f32;
  if (x.exponent == 255) return infinity;
  if (x.exponent == bias && x.fraction == 0) return 0;
  i64 sum = parabola(lg2_rows, x.fraction, {12, 1, 0x3345}) >> 2;
  sum += i64{x.exponent - bias} << 36;
  const u32 sign = sum < 0 ? sign_mask : 0;
  if (sum < 0) sum = ~sum;
  return sum > 0 ? normalized(sign, sum, 36) : 0;
}

u32 special_rcp(u32 bits) {
  const Float x = split(bits);
  if (is_nan(x)) return canonical_nan_f32;
  if (x.exponent == 0) return x.sign | infinity;
  if (x.exponent == 255) return x.sign;
  // 128 segments, each half as wide as the others'
  const i64 sum = parabola(rcp_rows, x.fraction << 1, {14, 1, 2 * 0x47e7});
  return join(x.sign, 2 * bias - 1 - x.exponent, sum >> 16);
}

// The exponent's lowest bit stands above the fraction and so chooses the half of the rows: x is in
// [1, 4) and the exponent even. The same for sqrt.
u32 special_rsqrt(u32 bits) {
  const Float x = split(bits);
  if (is_nan(x)) return canonical_nan_f32;
  if (x.exponent == 0) return x.sign | infinity;
  if (x.sign) return canonical_nan_f32;
  if (x.exponent == 255) return 0;
  const int exponent = x.exponent - bias;
  const int half = exponent >> 1;
  const u32 fraction = x.fraction | (exponent & 1 ? hidden : 0);
  if (fraction == 0) return join(0, bias - half, hidden);
  return join(0, bias - half - 1, parabola(rsqrt_rows, fraction, {14, 2, 0x7fff}) >> 16);
}

u32 special_sqrt(u32 bits) {
  const Float x = split(bits);
  if (is_nan(x)) return canonical_nan_f32;
  if (x.exponent == 0) return x.sign;
  if (x.sign) return canonical_nan_f32;
  if (x.exponent == 255) return infinity;
  const int exponent = x.exponent - bias, odd = exponent & 1;
  const u32 fraction = x.fraction | (odd ? hidden : 0);
  const Terms terms = {15 - odd, 0, (1 << (15 - odd)) - 1};
  return join(0, bias + (exponent >> 1), parabola(sqrt_rows, fraction, terms) >> (17 - odd));
}

u32 special_sin(u32 x) { return sine(split(x), false); }
u32 special_cos(u32 x) { return sine(split(x), true); }

u32 special_revolutions(u32 x) {
  const double radians = std::bit_cast<float>(x);
  const double exact = radians * static_cast<double>(0x1.45f306p-3f);  // 48 bits
  const auto nearest = static_cast<float>(exact);
  if (nearest != nearest) return canonical_nan_f32;
  return std::bit_cast<u32>(nearest) - (std::fabs(static_cast<double>(nearest)) > std::fabs(exact));
}

u32 special_tanh(u32 bits) {
  const Float x = split(bits);
  if (is_nan(x)) return canonical_nan_f32;
  if (x.exponent < bias - 8) return bits;
  if (x.exponent >= bias + 3) return x.sign | one;
  const Octave octave = tanh_octaves[x.exponent - (bias - 8)];
  const i64 sum = parabola(tanh_rows + octave.first, x.fraction >> (6 - octave.split), {15, 1, 0});
  return normalized(x.sign, sum, 39);
}

}  // namespace microscale::emulator
