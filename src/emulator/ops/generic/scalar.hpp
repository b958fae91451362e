// FP32 and FP64 arithmetic, IEEE, by the host's own instructions. A single-precision NaN result is
// 0x7FFFFFFF, as the hardware writes it. Rounding other than to nearest sets the host's mode around
// a loop that the compiler cannot look into.

inline float nan_to_canonical(float value) { return value != value ? f32_of(0x7fffffffu) : value; }
inline float flushed(float value) {
  const u32 bits = bits_of(value);
  return f32_of((bits & 0x7f800000u) ? bits : bits & 0x80000000u);
}
inline float saturated(float value) {  // NaN to +0
  const float low = value > 0.0f ? value : 0.0f;
  return low < 1.0f ? low : 1.0f;
}

struct FAdd {
  template <class T>
  static T of(T a, T b) {
    return a + b;
  }
};
struct FSub {
  template <class T>
  static T of(T a, T b) {
    return a - b;
  }
};
struct FMul {
  template <class T>
  static T of(T a, T b) {
    return a * b;
  }
};
struct FDiv {
  template <class T>
  static T of(T a, T b) {
    return a / b;
  }
};
struct FRcp {
  template <class T>
  static T of(T a) {
    return T{1} / a;
  }
};
struct FSqrt {
  template <class T>
  static T of(T a) {
    return std::sqrt(a);
  }
};
struct Fma {
  static float of(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
  static double of(double a, double b, double c) { return __builtin_fma(a, b, c); }
};

template <bool Ftz>
inline float input(u32 bits) {
  return f32_of(!Ftz || (bits & 0x7f800000u) ? bits : bits & 0x80000000u);
}
template <bool Ftz>
inline double input(u64 bits) {
  return f64_of(bits);
}
template <bool Ftz, bool Sat>
inline u32 output(float value) {
  float r = nan_to_canonical(value);
  if (Ftz) r = flushed(r);
  if (Sat) r = saturated(r);
  return bits_of(r);
}
template <bool Ftz, bool Sat>
inline u64 output(double value) {
  return bits_of(value);
}

// Of several FP64 NaN operands one goes on, made quiet: the second, then of three the third, then
// the first; of a quotient the first. So an H200 has it. FP32 has one NaN, see output.
inline u64 quiet(u64 nan) { return nan | (u64{1} << 51); }
inline bool is_nan(u64 a) { return (a << 1) > 0xffe0000000000000u; }
inline u64 last_nan(u64 result, u64 a) { return is_nan(a) ? quiet(a) : result; }
inline u64 last_nan(u64 result, u64 a, u64 b) { return is_nan(b) ? quiet(b) : last_nan(result, a); }
inline u64 last_nan(u64 result, u64 a, u64 b, u64 c) {
  return is_nan(b) ? quiet(b) : last_nan(result, a, c);
}
inline u32 last_nan(u32 result, u32) { return result; }
inline u32 last_nan(u32 result, u32, u32) { return result; }
inline u32 last_nan(u32 result, u32, u32, u32) { return result; }

template <class F>
struct NanFirst : std::false_type {};
template <>
struct NanFirst<FDiv> : std::true_type {};

template <class F, bool Ftz, bool Sat>
struct Float {
  template <class U>
  static U of(U a) {
    return last_nan(output<Ftz, Sat>(F::of(input<Ftz>(a))), a);
  }
  template <class U>
  static U of(U a, U b) {
    const U r = output<Ftz, Sat>(F::of(input<Ftz>(a), input<Ftz>(b)));
    return NanFirst<F>::value ? last_nan(r, b, a) : last_nan(r, a, b);
  }
  template <class U>
  static U of(U a, U b, U c) {
    return last_nan(output<Ftz, Sat>(F::of(input<Ftz>(a), input<Ftz>(b), input<Ftz>(c))), a, b, c);
  }
};

// Two FP32 numbers in 64 bits, each for itself.
template <class F>
struct BothFloats {
  static u64 of(u64 a, u64 b) {
    const u32 low = F::of(static_cast<u32>(a), static_cast<u32>(b));
    const u32 high = F::of(static_cast<u32>(a >> 32), static_cast<u32>(b >> 32));
    return low | u64{high} << 32;
  }
  static u64 of(u64 a, u64 b, u64 c) {
    const u32 low = F::of(static_cast<u32>(a), static_cast<u32>(b), static_cast<u32>(c));
    const u32 high =
        F::of(static_cast<u32>(a >> 32), static_cast<u32>(b >> 32), static_cast<u32>(c >> 32));
    return low | u64{high} << 32;
  }
};

// Minus zero is below plus zero. Of a number and a NaN it is the number, of two NaNs the canonical
// one; with Nan a NaN wins. Xor: of the magnitudes, with the product's sign.
template <bool Less, bool Ftz, bool Nan, bool Xor>
struct MinMax32 {
  static u32 of(u32 x, u32 y) {
    u32 a = bits_of(input<Ftz>(x)), b = bits_of(input<Ftz>(y));
    const u32 sign = (a ^ b) & 0x80000000u;
    if (Xor) a &= 0x7fffffffu, b &= 0x7fffffffu;
    const float p = f32_of(a), q = f32_of(b);
    u32 r = (Less ? p < q : p > q) ? a : b;   // b as well if a is NaN
    r = p == q ? (Less ? a | b : a & b) : r;  // the two zeros
    r = q != q ? (Nan ? b : a) : r;
    if (Nan) r = p != p ? a : r;
    if (Xor) r |= sign;
    return bits_of(nan_to_canonical(f32_of(r)));
  }
  static u32 of(u32 a, u32 b, u32 c) { return of(of(a, b), c); }
};
template <bool Less>
struct MinMax64 {
  static u64 of(u64 a, u64 b) {
    const double x = f64_of(a), y = f64_of(b);
    if (x != x) return y != y ? quiet(b) : b;
    if (y != y) return a;
    if (x == y) return Less ? a | b : a & b;  // the two zeros
    return (Less ? x < y : x > y) ? a : b;
  }
};
// The hardware adds minus zero: an FP32 NaN becomes the canonical one, an FP64 NaN keeps its sign.
inline u32 with_canonical_nan(u32 bits) {
  return (bits & 0x7fffffffu) > 0x7f800000u ? 0x7fffffffu : bits;
}
template <bool Ftz>
struct FAbs32 {
  static u32 of(u32 a) { return with_canonical_nan(bits_of(input<Ftz>(a)) & 0x7fffffffu); }
};
template <bool Ftz>
struct FNeg32 {
  static u32 of(u32 a) { return with_canonical_nan(bits_of(input<Ftz>(a)) ^ 0x80000000u); }
};
struct FAbs64 {
  static u64 of(u64 a) { return is_nan(a) ? quiet(a) : a & (~u64{0} >> 1); }
};
struct FNeg64 {
  static u64 of(u64 a) { return is_nan(a) ? quiet(a) : a ^ (u64{1} << 63); }
};
struct Copysign32 {
  static u32 of(u32 a, u32 b) { return (a & 0x80000000u) | (b & 0x7fffffffu); }
};
struct Copysign64 {
  static u64 of(u64 a, u64 b) { return (a & (u64{1} << 63)) | (b & (~u64{0} >> 1)); }
};

#define MICROSCALE_BOTH(key, ...) \
  {key, __VA_ARGS__}, { "directed." key, rounded<__VA_ARGS__> }
#define MICROSCALE_FLOAT(name, f, s32, s64)                            \
  MICROSCALE_BOTH(name ".f32", s32<Float<f, false, false>>),           \
      MICROSCALE_BOTH(name ".f32.ftz", s32<Float<f, true, false>>),    \
      MICROSCALE_BOTH(name ".f32.sat", s32<Float<f, false, true>>),    \
      MICROSCALE_BOTH(name ".f32.ftz.sat", s32<Float<f, true, true>>), \
      MICROSCALE_BOTH(name ".f64", s64<Float<f, false, false>>)
#define MICROSCALE_PAIR(name, f, s64)                                      \
  MICROSCALE_BOTH(name ".f32x2", s64<BothFloats<Float<f, false, false>>>), \
      MICROSCALE_BOTH(name ".f32x2.ftz", s64<BothFloats<Float<f, true, false>>>)
#define MICROSCALE_MINMAX(name, less)                                                         \
  {name ".f32", binary<u32, u32, u32, MinMax32<less, false, false, false>>},                  \
      {name ".f32.ftz", binary<u32, u32, u32, MinMax32<less, true, false, false>>},           \
      {name ".f32.NaN", binary<u32, u32, u32, MinMax32<less, false, true, false>>},           \
      {name ".f32.ftz.NaN", binary<u32, u32, u32, MinMax32<less, true, true, false>>},        \
      {name ".f32.xorsign", binary<u32, u32, u32, MinMax32<less, false, false, true>>},       \
      {name ".f32.NaN.xorsign", binary<u32, u32, u32, MinMax32<less, false, true, true>>},    \
      {name ".f32.ftz.xorsign", binary<u32, u32, u32, MinMax32<less, true, false, true>>},    \
      {name ".f32.ftz.NaN.xorsign", binary<u32, u32, u32, MinMax32<less, true, true, true>>}, \
      {name "3.f32", ternary<u32, u32, u32, u32, MinMax32<less, false, false, false>>},       \
      {name "3.f32.NaN", ternary<u32, u32, u32, u32, MinMax32<less, false, true, false>>},    \
      {name "3.f32.ftz", ternary<u32, u32, u32, u32, MinMax32<less, true, false, false>>},    \
      {name ".f64", binary<u64, u64, u64, MinMax64<less>>},

Family scalar_family() {
  static constexpr HandlerEntry entries[] = {
      MICROSCALE_FLOAT("add", FAdd, binary32, binary64),
      MICROSCALE_FLOAT("sub", FSub, binary32, binary64),
      MICROSCALE_FLOAT("mul", FMul, binary32, binary64),
      MICROSCALE_FLOAT("div", FDiv, binary32, binary64),
      MICROSCALE_FLOAT("fma", Fma, ternary32, ternary64),
      MICROSCALE_PAIR("add", FAdd, binary64),
      MICROSCALE_PAIR("sub", FSub, binary64),
      MICROSCALE_PAIR("mul", FMul, binary64),
      MICROSCALE_PAIR("fma", Fma, ternary64),
      MICROSCALE_FLOAT("rcp", FRcp, unary32, unary64),
      MICROSCALE_FLOAT("sqrt", FSqrt, unary32, unary64),
      MICROSCALE_MINMAX("min", true)
          MICROSCALE_MINMAX("max", false){"abs.f32", unary<u32, u32, FAbs32<false>>},
      {"abs.f32.ftz", unary<u32, u32, FAbs32<true>>},
      {"neg.f32", unary<u32, u32, FNeg32<false>>},
      {"neg.f32.ftz", unary<u32, u32, FNeg32<true>>},
      {"abs.f64", unary<u64, u64, FAbs64>},
      {"neg.f64", unary<u64, u64, FNeg64>},
      {"copysign.f32", binary<u32, u32, u32, Copysign32>},
      {"copysign.f64", binary<u64, u64, u64, Copysign64>},
  };
  return entries;
}
#undef MICROSCALE_BOTH
#undef MICROSCALE_FLOAT
#undef MICROSCALE_PAIR
#undef MICROSCALE_MINMAX
