// The approximate functions. Hardware's last bits are its own; here each result is the exact one,
// rounded once to nearest (computed in double precision). `approximate` is the one place that
// decides them, so that tables learned from hardware go there and nowhere else.
#include <cmath>

#include "emulator/ops/families.hpp"
#include "emulator/ops/target.hpp"
#include "formats/half.hpp"

namespace microscale::emulator {
namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

enum class Function { ex2, lg2, rcp, sqrt, rsqrt, sin, cos, tanh };

double exact(Function function, double x) {
  switch (function) {
    case Function::ex2:
      return std::exp2(x);
    case Function::lg2:
      return std::log2(x);
    case Function::rcp:
      return 1.0 / x;
    case Function::sqrt:
      return std::sqrt(x);
    case Function::rsqrt:
      return 1.0 / std::sqrt(x);
    case Function::sin:
      return std::sin(x);
    case Function::cos:
      return std::cos(x);
    case Function::tanh:
      return std::tanh(x);
  }
  return x;
}

float flushed(float value) {
  return std::fabs(value) < 0x1p-126f ? std::copysign(0.0f, value) : value;
}
float canonical(float value) { return value != value ? canonical_nan() : value; }

/// The bits that an approximate instruction gives for an FP32 operand.
float approximate(Function function, float x, bool ftz) {
  if (ftz) x = flushed(x);
  const float y = static_cast<float>(exact(function, x));
  return canonical(ftz ? flushed(y) : y);
}

template <Function F, bool Ftz>
Step unary_f32(const Op& op, Warp& warp, u32 lanes) {
  for (u32 rest = lanes; rest; rest &= rest - 1) {
    const int i = std::countr_zero(rest);
    warp.row32(op.d)[i] =
        std::bit_cast<u32>(approximate(F, std::bit_cast<float>(warp.row32(op.a)[i]), Ftz));
  }
  return Step::next;
}

template <bool Ftz>
Step divide_f32(const Op& op, Warp& warp, u32 lanes) {
  for (u32 rest = lanes; rest; rest &= rest - 1) {
    const int i = std::countr_zero(rest);
    float a = std::bit_cast<float>(warp.row32(op.a)[i]),
          b = std::bit_cast<float>(warp.row32(op.b)[i]);
    if (Ftz) a = flushed(a), b = flushed(b);
    const float r = a / b;
    warp.row32(op.d)[i] = std::bit_cast<u32>(canonical(Ftz ? flushed(r) : r));
  }
  return Step::next;
}

template <Function F>
Step unary_f64(const Op& op, Warp& warp, u32 lanes) {
  for (u32 rest = lanes; rest; rest &= rest - 1) {
    const int i = std::countr_zero(rest);
    const double x = std::bit_cast<double>(warp.row64(op.a)[i]);
    warp.row64(op.d)[i] =
        std::bit_cast<u64>(exact(F, x)) & 0xffffffff00000000u;  // 20 bits of mantissa
  }
  return Step::next;
}

template <Function F, bool Brain, int Parts>
Step unary_half(const Op& op, Warp& warp, u32 lanes) {
  for (u32 rest = lanes; rest; rest &= rest - 1) {
    const int i = std::countr_zero(rest);
    const u32 a = warp.row32(op.a)[i];
    u32 r = 0;
    for (int k = 0; k < Parts; ++k) {
      const auto h = static_cast<std::uint16_t>(a >> (16 * k));
      const float y = static_cast<float>(exact(F, Brain ? bf16_to_float(h) : f16_to_float(h)));
      r |= static_cast<u32>(Brain ? float_to_bf16(y) : float_to_f16(y)) << (16 * k);
    }
    warp.row32(op.d)[i] = r;
  }
  return Step::next;
}

#define MICROSCALE_APPROX(name, f) \
  {"approx." name ".f32", unary_f32<f, false>}, { "approx." name ".f32.ftz", unary_f32<f, true> }
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
      MICROSCALE_APPROX("ex2", Function::ex2),
      MICROSCALE_APPROX("lg2", Function::lg2),
      MICROSCALE_APPROX("rcp", Function::rcp),
      MICROSCALE_APPROX("sqrt", Function::sqrt),
      MICROSCALE_APPROX("rsqrt", Function::rsqrt),
      MICROSCALE_APPROX("sin", Function::sin),
      MICROSCALE_APPROX("cos", Function::cos),
      MICROSCALE_APPROX("tanh", Function::tanh),
      MICROSCALE_APPROX_HALF("ex2", Function::ex2),
      MICROSCALE_APPROX_HALF("tanh", Function::tanh),
      {"approx.rcp.f64.ftz", unary_f64<Function::rcp>},
      {"approx.rsqrt.f64.ftz", unary_f64<Function::rsqrt>},
      {"approx.rsqrt.f64", unary_f64<Function::rsqrt>},
      {"approx.div.f32", divide_f32<false>},
      {"approx.div.f32.ftz", divide_f32<true>},
  };
  return entries;
}

}  // namespace microscale::emulator
