// The approximate functions: the special function unit and the few operations that an assembler
// puts around it (read off compiled code), where a form without .ftz keeps subnormal numbers.
#include <cmath>

#include "emulator/ops/families.hpp"
#include "emulator/ops/special_functions.hpp"
#include "emulator/ops/target.hpp"
#include "formats/half.hpp"

namespace microscale::emulator {
namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

float real(u32 bits) { return std::bit_cast<float>(bits); }
u32 bits_of(float value) { return std::bit_cast<u32>(value != value ? canonical_nan() : value); }

constexpr float smallest_normal = 0x1p-126f;

float flushed(float value) {
  return std::fabs(value) < smallest_normal ? std::copysign(0.0f, value) : value;
}

template <u32 (*F)(u32)>
float unit(float x) {
  return real(F(bits_of(x)));
}

// Without .ftz: subnormal operands are scaled up, or large ones down, and the result back.

u32 ex2(u32 x) {
  if (!(real(x) < -126.0f)) return special_ex2(x);
  const float root = unit<special_ex2>(real(x) * 0.5f);
  return bits_of(root * root);
}

u32 rcp(u32 x) {
  const float size = std::fabs(real(x));
  const float scale = size > 0x1p126f ? 0.25f : size < smallest_normal ? 0x1p24f : 1.0f;
  return bits_of(scale * unit<special_rcp>(scale * real(x)));
}

u32 lg2(u32 x) {
  if (!(std::fabs(real(x)) < smallest_normal)) return special_lg2(x);
  return bits_of(unit<special_lg2>(real(x) * 0x1p24f) - 24.0f);
}

u32 rsqrt(u32 x) {
  if (!(std::fabs(real(x)) < smallest_normal)) return special_rsqrt(x);
  return bits_of(unit<special_rsqrt>(real(x) * 0x1p24f) * 0x1p12f);
}

u32 sqrt(u32 x) {
  if (!(std::fabs(real(x)) < smallest_normal)) return special_sqrt(x);
  return bits_of(unit<special_sqrt>(real(x) * 0x1p24f) * 0x1p-12f);
}

// There is no other sin and cos: radians become revolutions with one multiplication.

u32 sin(u32 x) { return special_sin(special_revolutions(x)); }
u32 cos(u32 x) { return special_cos(special_revolutions(x)); }

/// FP32 bits as FP16, cut; subnormal results are kept.
u32 cut_to_f16(u32 bits) {
  const u32 sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return canonical_nan_16;
  if (magnitude >= 0x47800000u) return sign | 0x7c00u;
  if (magnitude >= 0x38800000u) return sign | ((magnitude - (112u << 23)) >> 13);
  const u32 shift = 126 - (magnitude >> 23), significand = (magnitude & 0x7fffffu) | 0x800000u;
  return shift < 24 ? sign | significand >> shift : sign;
}

template <u32 (*F)(u32)>
Step unary_f32(const Op& op, Warp& warp, u32 lanes) {
  for (u32 rest = lanes; rest; rest &= rest - 1) {
    const int i = std::countr_zero(rest);
    warp.row32(op.d)[i] = F(warp.row32(op.a)[i]);
  }
  return Step::next;
}

/// a times the reciprocal of b. Both are scaled by the same power of two where b is subnormal
/// (unless Ftz) or, in div.full, large.
template <bool Full, bool Ftz>
Step divide_f32(const Op& op, Warp& warp, u32 lanes) {
  for (u32 rest = lanes; rest; rest &= rest - 1) {
    const int i = std::countr_zero(rest);
    float a = real(warp.row32(op.a)[i]), b = real(warp.row32(op.b)[i]);
    if (Ftz) a = flushed(a), b = flushed(b);
    const float size = std::fabs(b);
    float scale = 1.0f;
    if (Full && size > 0x1p126f) scale = 0.25f;
    if (!Ftz && size < smallest_normal) scale = 0x1p24f;
    if (scale != 1.0f) a *= scale, b *= scale;
    if (Ftz) a = flushed(a);
    const float quotient = unit<special_rcp>(b) * a;
    warp.row32(op.d)[i] = bits_of(Ftz ? flushed(quotient) : quotient);
  }
  return Step::next;
}

template <u32 (*F)(u32), bool Brain, int Parts>
Step unary_half(const Op& op, Warp& warp, u32 lanes) {
  for (u32 rest = lanes; rest; rest &= rest - 1) {
    const int i = std::countr_zero(rest);
    const u32 a = warp.row32(op.a)[i];
    u32 r = 0;
    for (int k = 0; k < Parts; ++k) {
      const auto h = static_cast<std::uint16_t>(a >> (16 * k));
      const u32 y = F(std::bit_cast<u32>(Brain ? bf16_to_float(h) : f16_to_float(h)));
      r |= (Brain ? y >> 16 : cut_to_f16(y)) << (16 * k);
    }
    warp.row32(op.d)[i] = r;
  }
  return Step::next;
}

// FP64: not measured. The high 32 bits of the exact value, and of rsqrt without .ftz (which
// compiles to a start value and a refinement) all 64.

template <bool Root, bool HighHalf>
Step unary_f64(const Op& op, Warp& warp, u32 lanes) {
  for (u32 rest = lanes; rest; rest &= rest - 1) {
    const int i = std::countr_zero(rest);
    const double x = std::bit_cast<double>(warp.row64(op.a)[i]);
    const u64 y = std::bit_cast<u64>(1.0 / (Root ? std::sqrt(x) : x));
    warp.row64(op.d)[i] = HighHalf ? y & 0xffffffff00000000u : y;
  }
  return Step::next;
}

#define MICROSCALE_APPROX(name, plain, ftz) \
  {"approx." name ".f32", unary_f32<plain>}, { "approx." name ".f32.ftz", unary_f32<ftz> }
#define MICROSCALE_APPROX_HALF(name, f)                       \
  {"approx." name ".f16", unary_half<f, false, 1>},           \
      {"approx." name ".f16x2", unary_half<f, false, 2>},     \
      {"approx." name ".bf16", unary_half<f, true, 1>},       \
      {"approx." name ".bf16x2", unary_half<f, true, 2>},     \
      {"approx." name ".bf16.ftz", unary_half<f, true, 1>}, { \
    "approx." name ".bf16x2.ftz", unary_half<f, true, 2>      \
  }

}  // namespace

Family approx_family() {
  static constexpr HandlerEntry entries[] = {
      MICROSCALE_APPROX("ex2", ex2, special_ex2),
      MICROSCALE_APPROX("lg2", lg2, special_lg2),
      MICROSCALE_APPROX("rcp", rcp, special_rcp),
      MICROSCALE_APPROX("sqrt", sqrt, special_sqrt),
      MICROSCALE_APPROX("rsqrt", rsqrt, special_rsqrt),
      MICROSCALE_APPROX("sin", sin, sin),
      MICROSCALE_APPROX("cos", cos, cos),
      {"approx.tanh.f32", unary_f32<special_tanh>},
      MICROSCALE_APPROX_HALF("ex2", special_ex2),
      MICROSCALE_APPROX_HALF("tanh", special_tanh),
      {"approx.rcp.f64.ftz", unary_f64<false, true>},
      {"approx.rsqrt.f64.ftz", unary_f64<true, true>},
      {"approx.rsqrt.f64", unary_f64<true, false>},
      {"approx.div.f32", divide_f32<false, false>},
      {"approx.div.f32.ftz", divide_f32<false, true>},
      {"full.div.f32", divide_f32<true, false>},
      {"full.div.f32.ftz", divide_f32<true, true>},
  };
  return entries;
}

}  // namespace microscale::emulator
