// Comparisons and what is made of them: setp, set, slct, testp, and the logic of predicates.

template <class S>
struct Eq {
  template <class U>
  static bool of(U a, U b) {
    return a == b;
  }
};
template <class S>
struct Ne {
  template <class U>
  static bool of(U a, U b) {
    return a != b;
  }
};
template <class S>
struct Lt {
  template <class U>
  static bool of(U a, U b) {
    return static_cast<S>(a) < static_cast<S>(b);
  }
};
template <class S>
struct Le {
  template <class U>
  static bool of(U a, U b) {
    return static_cast<S>(a) <= static_cast<S>(b);
  }
};
template <class S>
struct Gt {
  template <class U>
  static bool of(U a, U b) {
    return static_cast<S>(a) > static_cast<S>(b);
  }
};
template <class S>
struct Ge {
  template <class U>
  static bool of(U a, U b) {
    return static_cast<S>(a) >= static_cast<S>(b);
  }
};
template <template <class> class F>
struct Signed16 {
  static bool of(u32 a, u32 b) { return F<s32>::of(s16_of(a), s16_of(b)); }
};

// How the bits of a lane are a number.
struct AsF32 {
  static float value(u32 a) { return f32_of(a); }
};
struct AsF32Ftz {
  static float value(u32 a) { return f32_of((a & 0x7f800000u) ? a : a & 0x80000000u); }
};
struct AsF64 {
  static double value(u64 a) { return f64_of(a); }
};
struct AsF16 {
  static float value(u32 a) { return from_f16(a & 0xffffu); }
};
struct AsBf16 {
  static float value(u32 a) { return from_bf16(a & 0xffffu); }
};
struct AsF16High {
  static float value(u32 a) { return from_f16(a >> 16); }
};
struct AsBf16High {
  static float value(u32 a) { return from_bf16(a >> 16); }
};

// Ordered ones are false, unordered ones true, when an operand is NaN.
template <class V>
struct FEq {
  template <class U>
  static bool of(U a, U b) {
    return V::value(a) == V::value(b);
  }
};
template <class V>
struct FNe {
  template <class U>
  static bool of(U a, U b) {
    return int{V::value(a) < V::value(b)} | int{V::value(a) > V::value(b)};  // no branch
  }
};
template <class V>
struct FLt {
  template <class U>
  static bool of(U a, U b) {
    return V::value(a) < V::value(b);
  }
};
template <class V>
struct FLe {
  template <class U>
  static bool of(U a, U b) {
    return V::value(a) <= V::value(b);
  }
};
template <class V>
struct FGt {
  template <class U>
  static bool of(U a, U b) {
    return V::value(a) > V::value(b);
  }
};
template <class V>
struct FGe {
  template <class U>
  static bool of(U a, U b) {
    return V::value(a) >= V::value(b);
  }
};
template <class F>
struct Unless {
  template <class U>
  static bool of(U a, U b) {
    return !F::of(a, b);
  }
};
template <class V>
struct Num {
  template <class U>
  static bool of(U a, U b) {
    return int{V::value(a) == V::value(a)} & int{V::value(b) == V::value(b)};
  }
};

/// `holds` with predicate op.c, by op.mode: 0 alone, 1 and, 2 or, 3 xor.
inline u32 combined(const Op& op, Warp& warp, u32 holds) {
  if (!op.mode) return holds;
  const u32 c = warp.predicate(op, op.c, 1);
  return op.mode == 1 ? holds & c : op.mode == 2 ? holds | c : holds ^ c;
}
/// p, combined, into op.d; q, combined, into op.extra; 0 there: into none.
inline Step store_comparison(const Op& op, Warp& warp, u32 lanes, u32 p, u32 q) {
  p = combined(op, warp, p);
  q = combined(op, warp, q);
  if (op.d) warp.set_predicate(op.d, lanes, p);
  if (op.extra) warp.set_predicate(op.extra, lanes, q);
  return Step::next;
}
template <class T, class F>
Step setp(const Op& op, Warp& warp, u32 lanes) {
  const u32 holds = compare<T, F>(lanes_of<T>(warp, op.a), lanes_of<T>(warp, op.b));
  return store_comparison(op, warp, lanes, holds, ~holds);
}
/// Of pairs: p is of the low halves, q of the high ones.
template <class Low, class High>
Step setp_pair(const Op& op, Warp& warp, u32 lanes) {
  const u32* a = lanes_of<u32>(warp, op.a);
  const u32* b = lanes_of<u32>(warp, op.b);
  return store_comparison(op, warp, lanes, compare<u32, Low>(a, b), compare<u32, High>(a, b));
}
/// d = op.value where it holds, else 0; combined with a predicate as setp is.
template <class T, class F>
Step set(const Op& op, Warp& warp, u32 lanes) {
  const u32 holds =
      combined(op, warp, compare<T, F>(lanes_of<T>(warp, op.a), lanes_of<T>(warp, op.b)));
  u32* d = lanes_of<u32>(warp, op.d);
  alignas(64) u32 r[32];
  const u32 value = static_cast<u32>(op.value);
  MICROSCALE_LANES for (int i = 0; i < 32; ++i) r[i] = (holds & lane_bit[i]) ? value : 0;
  keep(d, r, lanes);
  return Step::next;
}

struct SlctS32 {
  template <class T>
  static T of(T a, T b, u32 c) {
    return static_cast<s32>(c) >= 0 ? a : b;
  }
};
struct SlctF32 {
  template <class T>
  static T of(T a, T b, u32 c) {
    return f32_of(c) >= 0 ? a : b;
  }
};
struct SlctF32Ftz {
  template <class T>
  static T of(T a, T b, u32 c) {
    return AsF32Ftz::value(c) >= 0 ? a : b;
  }
};

/// testp: op.mode 0 finite, 1 infinite, 2 number, 3 notanumber, 4 normal, 5 subnormal. Zero is
/// normal, as an H200 has it.
template <class T>
Step testp(const Op& op, Warp& warp, u32 lanes) {
  constexpr T infinity =
      sizeof(T) == 4 ? static_cast<T>(0x7f800000u) : static_cast<T>(0x7ff0000000000000u);
  constexpr T smallest =
      sizeof(T) == 4 ? static_cast<T>(0x00800000u) : static_cast<T>(0x0010000000000000u);
  const T* a = lanes_of<T>(warp, op.a);
  u32 mask = 0;
  for (int i = 0; i < 32; ++i) {
    const T m = a[i] & (~T{0} >> 1);
    const bool holds[6] = {m<infinity, m == infinity, m <= infinity, m> infinity,
                           m < infinity && (m >= smallest || m == 0), m != 0 && m < smallest};
    if (holds[op.mode]) mask |= lane_bit[i];
  }
  warp.set_predicate(op.d, lanes, mask);
  return Step::next;
}

/// op.mode: 0 and, 1 or, 2 xor, 3 not, 4 mov.
inline Step predicate_logic(const Op& op, Warp& warp, u32 lanes) {
  const u32 a = warp.predicate(op, op.a, 1), b = warp.predicate(op, op.b, 2);
  const u32 r = op.mode == 0   ? a & b
                : op.mode == 1 ? a | b
                : op.mode == 2 ? a ^ b
                : op.mode == 3 ? ~a
                               : a;
  warp.set_predicate(op.d, lanes, r);
  return Step::next;
}

#define MICROSCALE_BOTH(key, T, ...) \
  {"setp." key, setp<T, __VA_ARGS__>}, { "set." key, set<T, __VA_ARGS__> }
#define MICROSCALE_INTEGER(bits, T, S)                                          \
  MICROSCALE_BOTH("lt." bits, T, Lt<S>), MICROSCALE_BOTH("le." bits, T, Le<S>), \
      MICROSCALE_BOTH("gt." bits, T, Gt<S>), MICROSCALE_BOTH("ge." bits, T, Ge<S>)
#define MICROSCALE_FLOAT(type, T, V)                                                            \
  MICROSCALE_BOTH("eq." type, T, FEq<V>), MICROSCALE_BOTH("ne." type, T, FNe<V>),               \
      MICROSCALE_BOTH("lt." type, T, FLt<V>), MICROSCALE_BOTH("le." type, T, FLe<V>),           \
      MICROSCALE_BOTH("gt." type, T, FGt<V>), MICROSCALE_BOTH("ge." type, T, FGe<V>),           \
      MICROSCALE_BOTH("equ." type, T, Unless<FNe<V>>),                                          \
      MICROSCALE_BOTH("neu." type, T, Unless<FEq<V>>),                                          \
      MICROSCALE_BOTH("ltu." type, T, Unless<FGe<V>>),                                          \
      MICROSCALE_BOTH("leu." type, T, Unless<FGt<V>>),                                          \
      MICROSCALE_BOTH("gtu." type, T, Unless<FLe<V>>),                                          \
      MICROSCALE_BOTH("geu." type, T, Unless<FLt<V>>), MICROSCALE_BOTH("num." type, T, Num<V>), \
      MICROSCALE_BOTH("nan." type, T, Unless<Num<V>>)
#define MICROSCALE_PAIR(name, type, L, H) \
  { "setp." name "." type "x2", setp_pair<L, H> }
#define MICROSCALE_PAIRS(type, L, H)                                                            \
  MICROSCALE_PAIR("eq", type, FEq<L>, FEq<H>), MICROSCALE_PAIR("ne", type, FNe<L>, FNe<H>),     \
      MICROSCALE_PAIR("lt", type, FLt<L>, FLt<H>), MICROSCALE_PAIR("le", type, FLe<L>, FLe<H>), \
      MICROSCALE_PAIR("gt", type, FGt<L>, FGt<H>), MICROSCALE_PAIR("ge", type, FGe<L>, FGe<H>), \
      MICROSCALE_PAIR("equ", type, Unless<FNe<L>>, Unless<FNe<H>>),                             \
      MICROSCALE_PAIR("neu", type, Unless<FEq<L>>, Unless<FEq<H>>),                             \
      MICROSCALE_PAIR("num", type, Num<L>, Num<H>),                                             \
      MICROSCALE_PAIR("nan", type, Unless<Num<L>>, Unless<Num<H>>)

Family compare_family() {
  static constexpr HandlerEntry entries[] = {
      MICROSCALE_BOTH("eq.32", u32, Eq<u32>),
      MICROSCALE_BOTH("ne.32", u32, Ne<u32>),
      MICROSCALE_BOTH("eq.64", u64, Eq<u64>),
      MICROSCALE_BOTH("ne.64", u64, Ne<u64>),
      MICROSCALE_INTEGER("u32", u32, u32),
      MICROSCALE_INTEGER("s32", u32, s32),
      MICROSCALE_INTEGER("u64", u64, u64),
      MICROSCALE_INTEGER("s64", u64, s64),
      MICROSCALE_BOTH("lt.s16", u32, Signed16<Lt>),
      MICROSCALE_BOTH("le.s16", u32, Signed16<Le>),
      MICROSCALE_BOTH("gt.s16", u32, Signed16<Gt>),
      MICROSCALE_BOTH("ge.s16", u32, Signed16<Ge>),
      MICROSCALE_FLOAT("f32", u32, AsF32),
      MICROSCALE_FLOAT("f32.ftz", u32, AsF32Ftz),
      MICROSCALE_FLOAT("f64", u64, AsF64),
      MICROSCALE_FLOAT("f16", u32, AsF16),
      MICROSCALE_FLOAT("bf16", u32, AsBf16),
      MICROSCALE_PAIRS("f16", AsF16, AsF16High),
      MICROSCALE_PAIRS("bf16", AsBf16, AsBf16High),
      {"slct.32.s32", ternary<u32, u32, u32, u32, SlctS32>},
      {"slct.64.s32", ternary<u64, u64, u64, u32, SlctS32>},
      {"slct.32.f32", ternary<u32, u32, u32, u32, SlctF32>},
      {"slct.64.f32", ternary<u64, u64, u64, u32, SlctF32>},
      {"slct.32.f32.ftz", ternary<u32, u32, u32, u32, SlctF32Ftz>},
      {"slct.64.f32.ftz", ternary<u64, u64, u64, u32, SlctF32Ftz>},
      {"testp.f32", testp<u32>},
      {"testp.f64", testp<u64>},
      {"pred", predicate_logic},
  };
  return entries;
}
#undef MICROSCALE_BOTH
#undef MICROSCALE_INTEGER
#undef MICROSCALE_FLOAT
#undef MICROSCALE_PAIR
#undef MICROSCALE_PAIRS
