// cvt between floats, and between them and integers. The small formats are in cvt_small.cpp.

// Integers of a row as numbers.
struct U8 {
  static u32 number(u32 a) { return a & 255u; }
};
struct S8 {
  static s32 number(u32 a) { return static_cast<s32>(a << 24) >> 24; }
};
struct U16 {
  static u32 number(u32 a) { return a & 0xffffu; }
};
struct S16 {
  static s32 number(u32 a) { return s16_of(a); }
};
struct U32 {
  static u32 number(u32 a) { return a; }
};
struct S32 {
  static s32 number(u32 a) { return static_cast<s32>(a); }
};
struct U64 {
  static u64 number(u64 a) { return a; }
};
struct S64 {
  static s64 number(u64 a) { return static_cast<s64>(a); }
};

template <class I>
struct ToF32 {
  template <class A>
  static u32 of(A a) {
    return bits_of(static_cast<float>(I::number(a)));
  }
};
template <class I>
struct ToF64 {
  template <class A>
  static u64 of(A a) {
    return bits_of(static_cast<double>(I::number(a)));
  }
};
/// Through a double that is odd in its last bit unless exact.
template <class I, class H>
struct ToHalf {
  template <class A>
  static u32 of(A a) {
    const auto number = I::number(a);
    const double top = static_cast<double>(number >> 20) * 1048576.0;
    const double low = static_cast<double>(number & 0xfffff);
    const double sum = top + low;
    const double part = sum - top;
    return H::store(float_odd(make_odd(sum, low - part)));
  }
};

template <int Mode>
inline double to_integral(double value) {
  if (Mode == 0) return std::nearbyint(value);  // the host rounds to nearest even
  if (Mode == 1) return std::trunc(value);
  if (Mode == 2) return std::floor(value);
  return std::ceil(value);
}
struct FromF32 {
  using Row = u32;
  template <bool Ftz>
  static double value(u32 a) {
    return f32_of(!Ftz || (a & 0x7f800000u) ? a : a & 0x80000000u);
  }
};
struct FromF64 {
  using Row = u64;
  template <bool>
  static double value(u64 a) {
    return f64_of(a);
  }
};
struct FromHalf {
  using Row = u32;
  template <bool>
  static double value(u32 a) {
    return from_f16(a & 0xffffu);
  }
};
struct FromBrain {
  using Row = u32;
  template <bool>
  static double value(u32 a) {
    return from_bf16(a & 0xffffu);
  }
};

/// Floats to integers of op.value & 255 bits, signed if bit 8: always saturating; NaN to 0, from
/// FP64 or to 64 bits to the sign bit alone.
template <class V, int Mode, bool Ftz>
Step float_to_integer(const Op& op, Warp& warp, u32 lanes) {
  const int bits = static_cast<int>(op.value & 255);
  const bool is_signed = op.value >> 8 & 1;
  const double limit = std::ldexp(1.0, bits - (is_signed ? 1 : 0));
  const u64 top = is_signed ? (u64{1} << (bits - 1)) - 1 : ~u64{0} >> (64 - bits);
  const u64 mask = ~u64{0} >> (64 - bits);
  const typename V::Row* a = lanes_of<typename V::Row>(warp, op.a);
  if (bits <= 32 && !op.mode && sizeof(typename V::Row) == 4) {  // the usual, without branches
    const double most = limit - 1, least = is_signed ? -limit : 0.0;
    constexpr double magic = 0x1.8p52;  // added to an integer, shows it in the low bits
    alignas(64) u32 r[32];
    MICROSCALE_LANES for (int i = 0; i < 32; ++i) {
      const double value = V::template value<Ftz>(a[i]);
      double whole = to_integral<Mode>(value);
      whole = whole > most ? most : whole;
      whole = whole < least ? least : whole;
      const u64 low = bits_of(whole + magic);
      r[i] = static_cast<u32>(value != value ? 0 : low) & static_cast<u32>(mask);
    }
    keep(result_of<u32>(warp, op.d), r, lanes);
    return Step::next;
  }
  for (u32 rest = lanes; rest; rest &= rest - 1) {
    const int i = std::countr_zero(rest);
    const double value = V::template value<Ftz>(a[i]);
    const double whole = to_integral<Mode>(value);
    u64 r = 0;
    if (value != value)
      r = bits == 64 || sizeof(typename V::Row) == 8 ? u64{1} << (bits - 1) : 0;
    else if (whole >= limit)
      r = top;
    else if (whole >= 0)
      r = whole >= 0x1p63 ? static_cast<u64>(whole - 0x1p63) + (u64{1} << 63)
                          : static_cast<u64>(whole);
    else if (is_signed)
      r = whole <= -limit ? 0 - (u64{1} << (bits - 1)) : static_cast<u64>(static_cast<s64>(whole));
    if (op.mode) {  // a 64-bit row
      lanes_of<u64>(warp, op.d)[i] = r & (bits == 64 || is_signed ? ~u64{0} : mask);
    } else {
      lanes_of<u32>(warp, op.d)[i] = static_cast<u32>(r & mask);
    }
  }
  return Step::next;
}

inline float canonical(float value) { return value != value ? f32_of(0x7fffffffu) : value; }
inline u32 flush_bits(u32 a) { return (a & 0x7f800000u) ? a : a & 0x80000000u; }
inline float clamp01(float value) {
  const float low = value > 0.0f ? value : 0.0f;
  return low < 1.0f ? low : 1.0f;
}

struct F16ToF32 {
  static u32 of(u32 a) { return bits_of(canonical(Half::load(a & 0xffffu))); }
};
struct Bf16ToF32 {
  static u32 of(u32 a) { return a << 16; }  // a NaN as well
};
struct Bf16ToF32Ftz {
  static u32 of(u32 a) { return (a & 0x7fffu) > 0x7f80u ? 0x7fffffffu : flush_bits(a << 16); }
};
template <class H>
struct HalfToF64 {
  static u64 of(u32 a) { return bits_of(static_cast<double>(canonical(H::load(a & 0xffffu)))); }
};
// A NaN keeps its sign and payload, and becomes quiet.
struct Bf16ToF64 {
  static u64 of(u32 a) {
    const u64 nan = u64{a & 0x8000u} << 48 | u64{0x7ff8} << 48 | u64{a & 0x7fu} << 45;
    return (a & 0x7fffu) > 0x7f80u ? nan : bits_of(static_cast<double>(f32_of(a << 16)));
  }
};
struct F32ToF64 {
  static u64 of(u32 a) { return bits_of(static_cast<double>(f32_of(a))); }
};
struct F32ToF64Ftz {
  static u64 of(u32 a) { return bits_of(static_cast<double>(f32_of(flush_bits(a)))); }
};
// A NaN keeps its sign and the top of its payload, and becomes quiet.
struct F64ToF32 {
  static u32 of(u64 a) {
    const u32 nan =
        static_cast<u32>(a >> 63) << 31 | 0x7fc00000u | (static_cast<u32>(a >> 29) & 0x3fffffu);
    return (a << 1) > 0xffe0000000000000u ? nan : bits_of(static_cast<float>(f64_of(a)));
  }
};
struct F64ToF32Ftz {
  static u32 of(u64 a) { return flush_bits(F64ToF32::of(a)); }
};
struct F64ToF32Sat {
  static u32 of(u64 a) { return bits_of(clamp01(static_cast<float>(f64_of(a)))); }
};
struct F64ToF32FtzSat {
  static u32 of(u64 a) { return flush_bits(F64ToF32Sat::of(a)); }
};
struct F16ToF32Sat {
  static u32 of(u32 a) { return bits_of(clamp01(Half::load(a & 0xffffu))); }
};
template <class H>
struct F64ToHalf {
  static u32 of(u64 a) {
    constexpr bool brain = std::is_same_v<H, Brain>;
    const u32 nan = static_cast<u32>(a >> 63) << 15 | (brain ? 0x7fc0u : 0x7e00u) |
                    (static_cast<u32>(a >> (brain ? 45 : 42)) & (brain ? 0x3fu : 0x1ffu));
    return (a << 1) > 0xffe0000000000000u ? nan : H::store(float_odd(f64_of(a)));
  }
};

enum class Last { plain, sat, relu, satfinite, relu_satfinite };
/// Rounded to nearest even, or toward zero.
template <class H, bool Zero, Last L>
inline u32 narrowed(u32 bits) {
  u32 h;
  if (!Zero) {
    h = H::store(L == Last::sat ? clamp01(f32_of(bits)) : f32_of(bits));
  } else {
    // Rounded to nearest, then one step back where that went beyond the value.
    if (L == Last::sat) bits = bits_of(clamp01(f32_of(bits)));
    h = H::store(f32_of(bits));
    const u32 back = bits_of(H::load(h)) & 0x7fffffffu, magnitude = bits & 0x7fffffffu;
    h = back > magnitude && magnitude < 0x7f800000u ? h - 1 : h;
  }
  const bool nan = (h & 0x7fffu) > H::infinity;
  if (L == Last::satfinite || L == Last::relu_satfinite)
    h = (h & 0x7fffu) == H::infinity ? (h & 0x8000u) | H::largest : h;
  if (L == Last::relu || L == Last::relu_satfinite) h = (h & 0x8000u) && !nan ? 0 : h;
  return h;
}
template <class H, bool Zero, Last L>
struct F32ToHalf {
  static u32 of(u32 a) { return narrowed<H, Zero, L>(a); }
};
/// a goes to the high half.
template <class H, bool Zero, Last L>
struct F32ToPair {
  static u32 of(u32 a, u32 b) { return (narrowed<H, Zero, L>(a) << 16) | narrowed<H, Zero, L>(b); }
};
template <class From, class To>
struct HalfToHalf {
  static u32 of(u32 a) { return To::store(From::load(a & 0xffffu)); }
};

/// TF32: 10 bits of mantissa kept in an FP32. Mode 0 nearest even, 1 toward zero, 2 nearest away.
template <int Mode, bool Relu>
struct ToTf32 {
  static u32 of(u32 a) {
    if ((a & 0x7fffffffu) > 0x7f800000u) return Mode == 2 ? a & 0xffffe000u : 0x7fffffffu;
    u32 r = a;
    if ((a & 0x7fffffffu) < 0x7f800000u)
      r = a + (Mode == 0 ? 0xfffu + ((a >> 13) & 1) : Mode == 2 ? 0x1000u : 0u);
    r &= 0xffffe000u;
    return Relu && (r >> 31) ? 0 : r;
  }
};
/// To an integral value of the same type, with .ftz and .sat as op.mode bits 0 and 1.
template <int Mode>
Step integral_f32(const Op& op, Warp& warp, u32 lanes) {
  const u32* a = lanes_of<u32>(warp, op.a);
  alignas(64) u32 r[32];
  for (int i = 0; i < 32; ++i) {
    const u32 bits = (op.mode & 1) ? flush_bits(a[i]) : a[i];
    float value = canonical(static_cast<float>(to_integral<Mode>(f32_of(bits))));
    if (op.mode & 2) value = clamp01(value);
    r[i] = bits_of(value);
  }
  keep(lanes_of<u32>(warp, op.d), r, lanes);
  return Step::next;
}
template <int Mode>
struct IntegralF64 {
  static u64 of(u64 a) { return bits_of(to_integral<Mode>(f64_of(a))); }
};
template <class H, int Mode>
struct IntegralHalf {
  static u32 of(u32 a) {
    return H::store(static_cast<float>(to_integral<Mode>(H::load(a & 0xffffu))));
  }
};
struct F32Sat {
  static u32 of(u32 a) { return bits_of(clamp01(f32_of(a))); }
};
struct F32Ftz {
  static u32 of(u32 a) { return bits_of(canonical(f32_of(flush_bits(a)))); }
};
struct F32Same {
  static u32 of(u32 a) { return bits_of(canonical(f32_of(a))); }
};

#define MICROSCALE_FROM_INTEGER(name, I, Row)                     \
  {"f32." name, unary<u32, Row, ToF32<I>>},                       \
      {"directed.f32." name, rounded<unary<u32, Row, ToF32<I>>>}, \
      {"f64." name, unary<u64, Row, ToF64<I>>},                   \
      {"directed.f64." name, rounded<unary<u64, Row, ToF64<I>>>}, \
      {"f16." name, unary<u32, Row, ToHalf<I, Half>>}, {          \
    "bf16." name, unary<u32, Row, ToHalf<I, Brain>>               \
  }
#define MICROSCALE_TO_INTEGER(name, V)                                                            \
  {"rni." name, float_to_integer<V, 0, false>}, {"rzi." name, float_to_integer<V, 1, false>},     \
      {"rmi." name, float_to_integer<V, 2, false>}, {"rpi." name, float_to_integer<V, 3, false>}, \
      {"rni.ftz." name, float_to_integer<V, 0, true>},                                            \
      {"rzi.ftz." name, float_to_integer<V, 1, true>},                                            \
      {"rmi.ftz." name, float_to_integer<V, 2, true>}, {                                          \
    "rpi.ftz." name, float_to_integer<V, 3, true>                                                 \
  }
#define MICROSCALE_NARROW(type, H, last, L)                     \
  {type ".f32" last, unary32<F32ToHalf<H, false, L>>},          \
      {"rz." type ".f32" last, unary32<F32ToHalf<H, true, L>>}, \
      {type "x2.f32" last, binary32<F32ToPair<H, false, L>>}, { \
    "rz." type "x2.f32" last, binary32<F32ToPair<H, true, L>>   \
  }
#define MICROSCALE_INTEGRAL(mode, number)                                                   \
  {mode ".f32.f32", integral_f32<number>}, {mode ".f64.f64", unary64<IntegralF64<number>>}, \
      {mode ".f16.f16", unary32<IntegralHalf<Half, number>>}, {                             \
    mode ".bf16.bf16", unary32<IntegralHalf<Brain, number>>                                 \
  }

/// Keys begin with what is made: "cvt." is left out.
Family convert_family() {
  static constexpr HandlerEntry entries[] = {
      {"integer.32.32", convert_integer<u32, u32>},
      {"integer.32.64", convert_integer<u32, u64>},
      {"integer.64.32", convert_integer<u64, u32>},
      {"integer.64.64", convert_integer<u64, u64>},
      MICROSCALE_FROM_INTEGER("u8", U8, u32),
      MICROSCALE_FROM_INTEGER("s8", S8, u32),
      MICROSCALE_FROM_INTEGER("u16", U16, u32),
      MICROSCALE_FROM_INTEGER("s16", S16, u32),
      MICROSCALE_FROM_INTEGER("u32", U32, u32),
      MICROSCALE_FROM_INTEGER("s32", S32, u32),
      MICROSCALE_FROM_INTEGER("u64", U64, u64),
      MICROSCALE_FROM_INTEGER("s64", S64, u64),
      MICROSCALE_TO_INTEGER("f32", FromF32),
      MICROSCALE_TO_INTEGER("f64", FromF64),
      MICROSCALE_TO_INTEGER("f16", FromHalf),
      MICROSCALE_TO_INTEGER("bf16", FromBrain),
      {"f32.f16", unary32<F16ToF32>},
      {"f32.f16.sat", unary32<F16ToF32Sat>},
      {"f32.bf16", unary32<Bf16ToF32>},
      {"f32.bf16.ftz", unary32<Bf16ToF32Ftz>},
      {"f64.f16", unary<u64, u32, HalfToF64<Half>>},
      {"f64.bf16", unary<u64, u32, Bf16ToF64>},
      {"f64.f32", unary<u64, u32, F32ToF64>},
      {"f64.f32.ftz", unary<u64, u32, F32ToF64Ftz>},
      {"f32.f64", unary<u32, u64, F64ToF32>},
      {"f32.f64.ftz", unary<u32, u64, F64ToF32Ftz>},
      {"f32.f64.sat", unary<u32, u64, F64ToF32Sat>},
      {"f32.f64.ftz.sat", unary<u32, u64, F64ToF32FtzSat>},
      {"directed.f32.f64", rounded<unary<u32, u64, F64ToF32>>},
      {"directed.f32.f64.ftz", rounded<unary<u32, u64, F64ToF32Ftz>>},
      {"directed.f32.f64.sat", rounded<unary<u32, u64, F64ToF32Sat>>},
      {"directed.f32.f64.ftz.sat", rounded<unary<u32, u64, F64ToF32FtzSat>>},
      {"f16.f64", unary<u32, u64, F64ToHalf<Half>>},
      {"bf16.f64", unary<u32, u64, F64ToHalf<Brain>>},
      {"bf16.f16", unary32<HalfToHalf<Half, Brain>>},
      {"f16.bf16", unary32<HalfToHalf<Brain, Half>>},
      MICROSCALE_NARROW("f16", Half, "", Last::plain),
      MICROSCALE_NARROW("bf16", Brain, "", Last::plain),
      MICROSCALE_NARROW("f16", Half, ".sat", Last::sat),
      MICROSCALE_NARROW("f16", Half, ".relu", Last::relu),
      MICROSCALE_NARROW("bf16", Brain, ".relu", Last::relu),
      MICROSCALE_NARROW("f16", Half, ".satfinite", Last::satfinite),
      MICROSCALE_NARROW("bf16", Brain, ".satfinite", Last::satfinite),
      MICROSCALE_NARROW("f16", Half, ".relu.satfinite", Last::relu_satfinite),
      MICROSCALE_NARROW("bf16", Brain, ".relu.satfinite", Last::relu_satfinite),
      {"tf32.f32", unary32<ToTf32<0, false>>},
      {"rz.tf32.f32", unary32<ToTf32<1, false>>},
      {"rna.tf32.f32", unary32<ToTf32<2, false>>},
      {"tf32.f32.relu", unary32<ToTf32<0, true>>},
      {"rz.tf32.f32.relu", unary32<ToTf32<1, true>>},
      MICROSCALE_INTEGRAL("rni", 0),
      MICROSCALE_INTEGRAL("rzi", 1),
      MICROSCALE_INTEGRAL("rmi", 2),
      MICROSCALE_INTEGRAL("rpi", 3),
      {"f32.f32", unary32<F32Same>},
      {"f32.f32.sat", unary32<F32Sat>},
      {"f32.f32.ftz", unary32<F32Ftz>},
  };
  return entries;
}
#undef MICROSCALE_FROM_INTEGER
#undef MICROSCALE_TO_INTEGER
#undef MICROSCALE_NARROW
#undef MICROSCALE_INTEGRAL
