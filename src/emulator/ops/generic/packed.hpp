// FP16 and BF16 arithmetic, single and in pairs, each operation rounded once. Sums and products of
// two are computed in FP32, whose 24 bits are enough to round again safely; fused ones through a
// double and a float whose last bit is odd unless exact. Inlined by force: a call is not a vector.

struct PAdd {
  static float of(float a, float b) { return a + b; }
};
struct PSub {
  static float of(float a, float b) { return a - b; }
};
struct PMul {
  static float of(float a, float b) { return a * b; }
};

enum class Finish { plain, sat, relu };

template <class H, bool Ftz>
inline float load_half(u32 h) {
  return H::load(!Ftz || (h & H::infinity) ? h : h & 0x8000u);
}
template <class H, bool Ftz, Finish Last>
inline u32 store_half(float value) {
  if (Last == Finish::sat) {
    const float low = value > 0.0f ? value : 0.0f;
    value = low < 1.0f ? low : 1.0f;
  }
  u32 h = H::store(value);
  if (Ftz) h = (h & H::infinity) ? h : h & 0x8000u;
  if (Last == Finish::relu) h = ((h & 0x8000u) && (h & 0x7fffu) <= H::infinity) ? 0 : h;
  return h;
}

template <class H, class F, bool Ftz, Finish Last>
struct HalfOf {
  [[gnu::always_inline]] static u32 of(u32 a, u32 b) {
    return store_half<H, Ftz, Last>(
        F::of(load_half<H, Ftz>(a & 0xffffu), load_half<H, Ftz>(b & 0xffffu)));
  }
};
template <class H, bool Ftz, Finish Last>
struct HalfFma {
  [[gnu::always_inline]] static u32 of(u32 a, u32 b, u32 c) {
    const double x = load_half<H, Ftz>(a & 0xffffu), y = load_half<H, Ftz>(b & 0xffffu);
    const double z = load_half<H, Ftz>(c & 0xffffu);
    return store_half<H, Ftz, Last>(float_odd(fma_odd(x, y, z)));
  }
};
template <class F>
struct BothHalves {
  [[gnu::always_inline]] static u32 of(u32 a) {
    return F::of(a & 0xffffu) | (F::of(a >> 16) << 16);
  }
  [[gnu::always_inline]] static u32 of(u32 a, u32 b) {
    return F::of(a & 0xffffu, b & 0xffffu) | (F::of(a >> 16, b >> 16) << 16);
  }
  [[gnu::always_inline]] static u32 of(u32 a, u32 b, u32 c) {
    return F::of(a & 0xffffu, b & 0xffffu, c & 0xffffu) | (F::of(a >> 16, b >> 16, c >> 16) << 16);
  }
};

template <class H, bool Less, bool Ftz, bool Nan, bool Xor>
struct HalfMinMax {
  [[gnu::always_inline]] static u32 of(u32 x, u32 y) {
    u32 a = !Ftz || (x & H::infinity) ? x : x & 0x8000u;
    u32 b = !Ftz || (y & H::infinity) ? y : y & 0x8000u;
    const u32 sign = (a ^ b) & 0x8000u;
    if (Xor) a &= 0x7fffu, b &= 0x7fffu;
    const bool nan_a = (a & 0x7fffu) > H::infinity, nan_b = (b & 0x7fffu) > H::infinity;
    const s32 order_a = (a & 0x8000u) ? -static_cast<s32>(a & 0x7fffu) - 1 : static_cast<s32>(a);
    const s32 order_b = (b & 0x8000u) ? -static_cast<s32>(b & 0x7fffu) - 1 : static_cast<s32>(b);
    u32 r = (Less ? order_a < order_b : order_a > order_b) ? a : b;
    r = nan_a ? b : r;
    r = nan_b ? a : r;
    if (Xor) r |= sign;
    const bool nan = Nan ? nan_a | nan_b : nan_a & nan_b;
    return nan ? 0x7fffu : r;
  }
};
template <class H>
struct HalfAbs {
  static u32 of(u32 a) { return (a & 0x7fffu) > H::infinity ? 0x7fffu : a & 0x7fffu; }
};
template <class H>
struct HalfNeg {
  [[gnu::always_inline]] static u32 of(u32 a) {
    return (a & 0x7fffu) > H::infinity ? 0x7fffu : (a & 0xffffu) ^ 0x8000u;
  }
};

// FP32 sums, differences and fused products whose first operands have 16 bits: these are widened,
// and the rest is FP32's.
template <class H, class F, bool Sat>
struct MixedOf {
  [[gnu::always_inline]] static u32 of(u32 a, u32 c) {
    return finished(F::of(H::load(a & 0xffffu), f32_of(c)));
  }
  [[gnu::always_inline]] static u32 of(u32 a, u32 b, u32 c) {
    return finished(__builtin_fmaf(H::load(a & 0xffffu), H::load(b & 0xffffu), f32_of(c)));
  }
  [[gnu::always_inline]] static u32 finished(float value) {
    if (Sat) {
      const float low = value > 0.0f ? value : 0.0f;
      return bits_of(low < 1.0f ? low : 1.0f);
    }
    return value != value ? 0x7fffffffu : bits_of(value);
  }
};

template <class F>
inline constexpr Handler pair1 = unary<u32, u32, BothHalves<F>>;
template <class F>
inline constexpr Handler pair2 = binary<u32, u32, u32, BothHalves<F>>;
template <class F>
inline constexpr Handler pair3 = ternary<u32, u32, u32, u32, BothHalves<F>>;

#define MICROSCALE_VARIANTS(key, shape, f, ...)                     \
  {key, shape<f<__VA_ARGS__, false, Finish::plain>>},               \
      {key ".sat", shape<f<__VA_ARGS__, false, Finish::sat>>},      \
      {key ".relu", shape<f<__VA_ARGS__, false, Finish::relu>>},    \
      {key ".ftz", shape<f<__VA_ARGS__, true, Finish::plain>>},     \
      {key ".ftz.sat", shape<f<__VA_ARGS__, true, Finish::sat>>}, { \
    key ".ftz.relu", shape<f<__VA_ARGS__, true, Finish::relu>>      \
  }
#define MICROSCALE_MIXED_OF(key, ...) \
  {key, __VA_ARGS__}, { "directed." key, rounded<__VA_ARGS__> }
#define MICROSCALE_MIXED(type, H)                                                      \
  MICROSCALE_MIXED_OF("mixed.add." type, binary32<MixedOf<H, PAdd, false>>),           \
      MICROSCALE_MIXED_OF("mixed.add." type ".sat", binary32<MixedOf<H, PAdd, true>>), \
      MICROSCALE_MIXED_OF("mixed.sub." type, binary32<MixedOf<H, PSub, false>>),       \
      MICROSCALE_MIXED_OF("mixed.sub." type ".sat", binary32<MixedOf<H, PSub, true>>), \
      MICROSCALE_MIXED_OF("mixed.fma." type, ternary32<MixedOf<H, PAdd, false>>),      \
      MICROSCALE_MIXED_OF("mixed.fma." type ".sat", ternary32<MixedOf<H, PAdd, true>>)
#define MICROSCALE_HALVES(type, H)                                                       \
  MICROSCALE_VARIANTS("add." type, binary32, HalfOf, H, PAdd),                           \
      MICROSCALE_VARIANTS("sub." type, binary32, HalfOf, H, PSub),                       \
      MICROSCALE_VARIANTS("mul." type, binary32, HalfOf, H, PMul),                       \
      MICROSCALE_VARIANTS("fma." type, ternary32, HalfFma, H),                           \
      MICROSCALE_VARIANTS("add." type "x2", pair2, HalfOf, H, PAdd),                     \
      MICROSCALE_VARIANTS("sub." type "x2", pair2, HalfOf, H, PSub),                     \
      MICROSCALE_VARIANTS("mul." type "x2", pair2, HalfOf, H, PMul),                     \
      MICROSCALE_VARIANTS("fma." type "x2", pair3, HalfFma, H),                          \
      MICROSCALE_MINMAX("min." type, H, true), MICROSCALE_MINMAX("max." type, H, false), \
      {"abs." type, unary32<HalfAbs<H>>}, {"abs." type "x2", pair1<HalfAbs<H>>},         \
      {"neg." type, unary32<HalfNeg<H>>}, {                                              \
    "neg." type "x2", pair1<HalfNeg<H>>                                                  \
  }
#define MICROSCALE_MINMAX(key, H, less)                                       \
  {key, binary32<HalfMinMax<H, less, false, false, false>>},                  \
      {key ".ftz", binary32<HalfMinMax<H, less, true, false, false>>},        \
      {key ".NaN", binary32<HalfMinMax<H, less, false, true, false>>},        \
      {key ".xorsign", binary32<HalfMinMax<H, less, false, false, true>>},    \
      {key ".NaN.xorsign", binary32<HalfMinMax<H, less, false, true, true>>}, \
      {key "x2", pair2<HalfMinMax<H, less, false, false, false>>},            \
      {key "x2.ftz", pair2<HalfMinMax<H, less, true, false, false>>},         \
      {key "x2.NaN", pair2<HalfMinMax<H, less, false, true, false>>},         \
      {key "x2.xorsign", pair2<HalfMinMax<H, less, false, false, true>>}, {   \
    key "x2.NaN.xorsign", pair2<HalfMinMax<H, less, false, true, true>>       \
  }

Family packed_family() {
  static constexpr HandlerEntry entries[] = {
      MICROSCALE_HALVES("f16", Half),
      MICROSCALE_HALVES("bf16", Brain),
      MICROSCALE_MIXED("f16", Half),
      MICROSCALE_MIXED("bf16", Brain),
  };
  return entries;
}
#undef MICROSCALE_VARIANTS
#undef MICROSCALE_HALVES
#undef MICROSCALE_MIXED
#undef MICROSCALE_MIXED_OF
#undef MICROSCALE_MINMAX
