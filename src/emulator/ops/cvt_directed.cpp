// cvt to FP16 and BF16 from any number, in all four roundings, with every modifier, and saturated
// to FP32 and FP64 from integers: in exact integers, a lane at a time. What kernels use a lot
// (nearest even, FP32 toward zero) are loops in generic/convert.hpp. op.mode: the rounding, and 4
// for BF16. op.value: flags, and of an integer its bits << 8 and 1 << 16 if it is signed.
#include "emulator/ops/families.hpp"
#include "emulator/ops/target.hpp"

namespace microscale::emulator {
namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

enum Rounding { nearest_even, toward_zero, down, up };
enum Flag { saturate = 1, relu = 2, finite = 4, flush = 8 };

/// magnitude * 2^exponent, exactly.
struct Exact {
  bool negative = false, infinite = false, nan = false;
  u64 magnitude = 0;
  int exponent = 0;
  u64 payload = 0;  // of a NaN, its highest bit the highest of 64
};

/// The low `width` bits as a number.
Exact exact_integer(u64 bits, int width, bool is_signed) {
  const int unused = 64 - width;
  const u64 low = bits << unused >> unused;
  Exact value;
  value.negative = is_signed && (low >> (width - 1) & 1);
  value.magnitude = value.negative ? (0 - low) << unused >> unused : low;
  return value;
}

/// A number of a format with so many bits of exponent and mantissa.
Exact exact_float(u64 bits, int exponent_bits, int mantissa_bits, bool flushed) {
  const u64 ones = (u64{1} << exponent_bits) - 1, hidden = u64{1} << mantissa_bits;
  const u64 mantissa = bits & (hidden - 1), biased = bits >> mantissa_bits & ones;
  Exact value;
  value.negative = bits >> (exponent_bits + mantissa_bits) & 1;
  value.nan = biased == ones && mantissa != 0;
  value.infinite = biased == ones && mantissa == 0;
  value.payload = mantissa << (64 - mantissa_bits);
  value.magnitude = biased != 0 ? mantissa | hidden : flushed ? 0 : mantissa;
  value.exponent =
      static_cast<int>(biased != 0 ? biased : 1) - static_cast<int>(ones >> 1) - mantissa_bits;
  return value;
}

bool is_one_or_more(const Exact& value) {
  const int top = static_cast<int>(std::bit_width(value.magnitude)) - 1 + value.exponent;
  return value.infinite || (value.magnitude != 0 && top >= 0);
}

/// A positive number, not 0, as a code that counts up from 0 through the subnormals; infinity and
/// beyond where it is too large.
u64 rounded_code(const Exact& value, int mantissa_bits, int bias, bool away, bool nearest) {
  const int smallest = 1 - bias - mantissa_bits;  // the exponent of the last bit of a subnormal
  const int top = static_cast<int>(std::bit_width(value.magnitude)) - 1 + value.exponent;
  const int last = top - mantissa_bits > smallest ? top - mantissa_bits : smallest;
  const int dropped = last - value.exponent;
  u64 kept = 0, rest = 1, half = 2;  // as if far below the smallest
  if (dropped <= 0) {
    kept = value.magnitude << -dropped;
    rest = 0;
  } else if (dropped <= 64) {
    kept = dropped < 64 ? value.magnitude >> dropped : 0;
    rest = value.magnitude - (dropped < 64 ? kept << dropped : 0);
    half = u64{1} << (dropped - 1);
  }
  const bool more = nearest ? rest > half || (rest == half && (kept & 1)) : away && rest != 0;
  return (static_cast<u64>(last - smallest) << mantissa_bits) + kept + (more ? 1 : 0);
}

u32 narrowed(const Exact& value, const Op& op) {
  const bool brain = op.mode & 4;
  const int rounding = op.mode & 3;
  const u32 infinity = brain ? 0x7f80 : 0x7c00, one = brain ? 0x3f80 : 0x3c00;
  if (op.value & saturate) {
    if (value.nan || value.negative) return 0;
    if (is_one_or_more(value)) return one;
  }
  if (value.nan) return 0x7fff;
  if ((op.value & relu) && value.negative) return 0;
  const u32 sign = value.negative ? 0x8000 : 0, largest = infinity - 1;
  if (value.infinite) return sign | ((op.value & finite) ? largest : infinity);
  if (value.magnitude == 0) return sign;
  const bool away = rounding == (value.negative ? down : up), nearest = rounding == nearest_even;
  const u64 code = rounded_code(value, brain ? 7 : 10, brain ? 127 : 15, away, nearest);
  if (code < infinity) return sign | static_cast<u32>(code);
  return sign | ((away || nearest) && !(op.value & finite) ? infinity : largest);
}

/// Of an FP64 NaN, without modifiers: its sign and the top of its payload, quiet.
u32 nan_of(const Exact& value, bool brain) {
  const u32 quiet = brain ? 0x7fc0 : 0x7e00;
  return (value.negative ? 0x8000u : 0u) | quiet |
         static_cast<u32>(value.payload >> (brain ? 57 : 54));
}

u64 source(const Warp& warp, const Op& op, int lane, bool wide) {
  return wide ? warp.row64(op.a)[lane] : warp.row32(op.a)[lane];
}

Exact integer_of(const Warp& warp, const Op& op, int lane, bool wide) {
  return exact_integer(source(warp, op, lane, wide), static_cast<int>(op.value >> 8 & 255),
                       op.value >> 16 & 1);
}

template <bool Wide>
Step from_integer(const Op& op, Warp& warp, u32 lanes) {
  for (; lanes; lanes &= lanes - 1) {
    const int i = std::countr_zero(lanes);
    warp.row32(op.d)[i] = narrowed(integer_of(warp, op, i, Wide), op);
  }
  return Step::next;
}

/// Between 0 and 1 an integer is 0 or 1.
template <bool Wide>
Step saturated_f32(const Op& op, Warp& warp, u32 lanes) {
  for (; lanes; lanes &= lanes - 1) {
    const int i = std::countr_zero(lanes);
    const Exact value = integer_of(warp, op, i, Wide);
    warp.row32(op.d)[i] = value.magnitude != 0 && !value.negative ? 0x3f800000u : 0;
  }
  return Step::next;
}
template <bool Wide>
Step saturated_f64(const Op& op, Warp& warp, u32 lanes) {
  for (; lanes; lanes &= lanes - 1) {
    const int i = std::countr_zero(lanes);
    const Exact value = integer_of(warp, op, i, Wide);
    warp.row64(op.d)[i] = value.magnitude != 0 && !value.negative ? u64{0x3ff} << 52 : 0;
  }
  return Step::next;
}

template <int ExponentBits, int MantissaBits>
Step from_float(const Op& op, Warp& warp, u32 lanes) {
  constexpr bool wide = ExponentBits + MantissaBits > 31;
  for (; lanes; lanes &= lanes - 1) {
    const int i = std::countr_zero(lanes);
    const Exact value =
        exact_float(source(warp, op, i, wide), ExponentBits, MantissaBits, op.value & flush);
    warp.row32(op.d)[i] =
        wide && value.nan && op.value == 0 ? nan_of(value, op.mode & 4) : narrowed(value, op);
  }
  return Step::next;
}

}  // namespace

Family cvt_directed_family() {
  static constexpr HandlerEntry entries[] = {
      {"narrow.integer.32", from_integer<false>}, {"narrow.integer.64", from_integer<true>},
      {"sat.f32.32", saturated_f32<false>},       {"sat.f32.64", saturated_f32<true>},
      {"sat.f64.32", saturated_f64<false>},       {"sat.f64.64", saturated_f64<true>},
      {"narrow.f16", from_float<5, 10>},          {"narrow.bf16", from_float<8, 7>},
      {"narrow.f32", from_float<8, 23>},          {"narrow.f64", from_float<11, 52>},
  };
  return entries;
}

}  // namespace microscale::emulator
