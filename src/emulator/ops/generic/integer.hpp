// Integer arithmetic. Functors take lanes as they are in rows: 8- and 16-bit values zero-extended.

struct Add {
  template <class T>
  static T of(T a, T b) {
    return a + b;
  }
};
struct Sub {
  template <class T>
  static T of(T a, T b) {
    return a - b;
  }
};
struct MulLo {
  template <class T>
  static T of(T a, T b) {
    return a * b;
  }
};
struct MadLo {
  template <class T>
  static T of(T a, T b, T c) {
    return a * b + c;
  }
};
struct Neg {
  template <class T>
  static T of(T a) {
    return 0 - a;
  }
};
struct Add16 {
  static u32 of(u32 a, u32 b) { return (a + b) & 0xffffu; }
};
struct Sub16 {
  static u32 of(u32 a, u32 b) { return (a - b) & 0xffffu; }
};
struct MulLo16 {
  static u32 of(u32 a, u32 b) { return (a * b) & 0xffffu; }
};
struct MadLo16 {
  static u32 of(u32 a, u32 b, u32 c) { return (a * b + c) & 0xffffu; }
};
struct Neg16 {
  static u32 of(u32 a) { return (0 - a) & 0xffffu; }
};
struct Add16x2 {
  static u32 of(u32 a, u32 b) {
    return ((a + b) & 0xffffu) | ((a & 0xffff0000u) + (b & 0xffff0000u));
  }
};

struct AddSat {
  static u32 of(u32 a, u32 b) {
    const u32 sum = a + b;
    const u32 limit = 0x7fffffffu + (a >> 31);
    return ((~(a ^ b) & (a ^ sum)) >> 31) ? limit : sum;
  }
};
struct SubSat {
  static u32 of(u32 a, u32 b) {
    const u32 difference = a - b;
    const u32 limit = 0x7fffffffu + (a >> 31);
    return (((a ^ b) & (a ^ difference)) >> 31) ? limit : difference;
  }
};

struct MulHiU32 {
  static u32 of(u32 a, u32 b) { return static_cast<u32>((static_cast<u64>(a) * b) >> 32); }
};
struct MulHiS32 {
  static u32 of(u32 a, u32 b) {
    return static_cast<u32>(static_cast<u64>(static_cast<s64>(static_cast<s32>(a)) *
                                             static_cast<s64>(static_cast<s32>(b))) >>
                            32);
  }
};
struct MulHiU64 {
  static u64 of(u64 a, u64 b) {
    return static_cast<u64>((static_cast<unsigned __int128>(a) * b) >> 64);
  }
};
struct MulHiS64 {
  static u64 of(u64 a, u64 b) {
    return static_cast<u64>((static_cast<__int128>(static_cast<s64>(a)) * static_cast<s64>(b)) >>
                            64);
  }
};
struct MulHiU16 {
  static u32 of(u32 a, u32 b) { return (a * b) >> 16; }
};
struct MulHiS16 {
  static u32 of(u32 a, u32 b) { return (static_cast<u32>(s16_of(a) * s16_of(b)) >> 16) & 0xffffu; }
};
struct MulWideU16 {
  static u32 of(u32 a, u32 b) { return a * b; }
};
struct MulWideS16 {
  static u32 of(u32 a, u32 b) { return static_cast<u32>(s16_of(a) * s16_of(b)); }
};
struct MulWideU32 {
  static u64 of(u32 a, u32 b) { return static_cast<u64>(a) * b; }
};
struct MulWideS32 {
  static u64 of(u32 a, u32 b) {
    return static_cast<u64>(static_cast<s64>(static_cast<s32>(a)) *
                            static_cast<s64>(static_cast<s32>(b)));
  }
};
template <class Product>
struct ThenAdd {
  template <class A, class C>
  static C of(A a, A b, C c) {
    return Product::of(a, b) + c;
  }
};
struct MadHi16U {
  static u32 of(u32 a, u32 b, u32 c) { return (MulHiU16::of(a, b) + c) & 0xffffu; }
};
struct MadHi16S {
  static u32 of(u32 a, u32 b, u32 c) { return (MulHiS16::of(a, b) + c) & 0xffffu; }
};
struct MadHiSat {
  static u32 of(u32 a, u32 b, u32 c) { return AddSat::of(MulHiS32::of(a, b), c); }
};
struct Mul24U {
  static u32 of(u32 a, u32 b) { return (a & 0xffffffu) * (b & 0xffffffu); }
};
struct Mul24S {
  static u32 of(u32 a, u32 b) {
    return static_cast<u32>(static_cast<s32>(a << 8) >> 8) *
           static_cast<u32>(static_cast<s32>(b << 8) >> 8);
  }
};

// Division by zero gives all ones (a remainder: the dividend), as the hardware's code does.
template <class U>
struct DivU {
  static U of(U a, U b) { return b == 0 ? ~U{0} : a / b; }
};
template <class U>
struct RemU {
  static U of(U a, U b) { return b == 0 ? a : a % b; }
};
template <class U, class S>
struct DivS {
  static U of(U a, U b) {
    if (b == 0) return ~U{0};
    if (b == ~U{0}) return U{0} - a;  // also the one quotient that overflows
    return static_cast<U>(static_cast<S>(a) / static_cast<S>(b));
  }
};
template <class U, class S>
struct RemS {
  static U of(U a, U b) {
    if (b == 0) return a;
    if (b == ~U{0}) return 0;
    return static_cast<U>(static_cast<S>(a) % static_cast<S>(b));
  }
};
struct DivS16 {
  static u32 of(u32 a, u32 b) {
    return b == 0 ? 0xffffu : static_cast<u32>(s16_of(a) / s16_of(b)) & 0xffffu;
  }
};
struct RemS16 {
  static u32 of(u32 a, u32 b) {
    return b == 0 ? a : static_cast<u32>(s16_of(a) % s16_of(b)) & 0xffffu;
  }
};
struct DivU16 {
  static u32 of(u32 a, u32 b) { return b == 0 ? 0xffffu : a / b; }
};

template <class S>
struct MinS {
  template <class U>
  static U of(U a, U b) {
    return static_cast<S>(a) < static_cast<S>(b) ? a : b;
  }
};
template <class S>
struct MaxS {
  template <class U>
  static U of(U a, U b) {
    return static_cast<S>(a) > static_cast<S>(b) ? a : b;
  }
};
struct MinS16 {
  static u32 of(u32 a, u32 b) { return s16_of(a) < s16_of(b) ? a : b; }
};
struct MaxS16 {
  static u32 of(u32 a, u32 b) { return s16_of(a) > s16_of(b) ? a : b; }
};
template <class Low>
struct Pair {  // a 16-bit operation on both halves
  static u32 of(u32 a, u32 b) {
    return Low::of(a & 0xffffu, b & 0xffffu) | (Low::of(a >> 16, b >> 16) << 16);
  }
};
template <class F>
struct Relu32 {
  static u32 of(u32 a, u32 b) { return MaxS<s32>::of(F::of(a, b), 0u); }
};
template <class F>
struct Relu16 {
  static u32 of(u32 a, u32 b) { return MaxS16::of(F::of(a, b), 0u); }
};
template <class S>
struct Abs {
  template <class U>
  static U of(U a) {
    return static_cast<S>(a) < 0 ? U{0} - a : a;
  }
};
struct Abs16 {
  static u32 of(u32 a) { return (a & 0x8000u) ? (0 - a) & 0xffffu : a; }
};
template <class S>
struct Sad {  // c + |a - b|
  template <class U>
  static U of(U a, U b, U c) {
    return c + (static_cast<S>(a) < static_cast<S>(b) ? b - a : a - b);
  }
};
struct SadU16 {
  static u32 of(u32 a, u32 b, u32 c) { return Sad<u32>::of(a, b, c) & 0xffffu; }
};
struct SadS16 {
  static u32 of(u32 a, u32 b, u32 c) {
    return (c + (s16_of(a) < s16_of(b) ? b - a : a - b)) & 0xffffu;
  }
};

// Byte k and half k of a word, as 32-bit numbers.
template <bool Signed>
inline u32 byte_number(u32 word, int k) {
  const u32 byte = word >> (8 * k) & 255;
  return Signed ? (byte ^ 128) - 128 : byte;
}
template <bool Signed>
inline u32 half_number(u32 word, int k) {
  const u32 half = word >> (16 * k) & 0xffffu;
  return Signed ? (half ^ 0x8000u) - 0x8000u : half;
}
template <bool SignedA, bool SignedB>
struct Dot4 {  // four bytes of a by four of b
  static u32 of(u32 a, u32 b, u32 c) {
    return c + byte_number<SignedA>(a, 0) * byte_number<SignedB>(b, 0) +
           byte_number<SignedA>(a, 1) * byte_number<SignedB>(b, 1) +
           byte_number<SignedA>(a, 2) * byte_number<SignedB>(b, 2) +
           byte_number<SignedA>(a, 3) * byte_number<SignedB>(b, 3);
  }
};
template <int First, bool SignedA, bool SignedB>
struct Dot2 {  // two halves of a by bytes First and First + 1 of b
  static u32 of(u32 a, u32 b, u32 c) {
    return c + half_number<SignedA>(a, 0) * byte_number<SignedB>(b, First) +
           half_number<SignedA>(a, 1) * byte_number<SignedB>(b, First + 1);
  }
};

/// Lane by lane, for what has no vector instruction and only costs when a lane takes part.
template <class T, class F>
Step scalar_binary(const Op& op, Warp& warp, u32 lanes) {
  T* d = lanes_of<T>(warp, op.d);
  const T* a = lanes_of<T>(warp, op.a);
  const T* b = lanes_of<T>(warp, op.b);
  for (; lanes; lanes &= lanes - 1) {
    const int i = std::countr_zero(lanes);
    d[i] = F::of(a[i], b[i]);
  }
  return Step::next;
}

struct Mad24HiSat {
  static u32 of(u32 a, u32 b, u32 c) { return AddSat::of(Mul24HiS::of(a, b), c); }
};

Family integer_family() {
  static constexpr HandlerEntry entries[] = {
      {"add.16", binary<u32, u32, u32, Add16>},
      {"add.32", binary<u32, u32, u32, Add>},
      {"add.64", binary<u64, u64, u64, Add>},
      {"add.16x2", binary<u32, u32, u32, Add16x2>},
      {"add.sat.s32", binary<u32, u32, u32, AddSat>},
      {"sub.16", binary<u32, u32, u32, Sub16>},
      {"sub.32", binary<u32, u32, u32, Sub>},
      {"sub.64", binary<u64, u64, u64, Sub>},
      {"sub.sat.s32", binary<u32, u32, u32, SubSat>},
      {"carried.32", carried<u32>},
      {"carried.64", carried<u64>},
      {"carried.product.32", carried_product<u32, s32>},
      {"carried.product.64", carried_product<u64, s64>},
      {"mul.lo.16", binary<u32, u32, u32, MulLo16>},
      {"mul.lo.32", binary<u32, u32, u32, MulLo>},
      {"mul.lo.64", binary<u64, u64, u64, MulLo>},
      {"mul.hi.u16", binary<u32, u32, u32, MulHiU16>},
      {"mul.hi.s16", binary<u32, u32, u32, MulHiS16>},
      {"mul.hi.u32", binary<u32, u32, u32, MulHiU32>},
      {"mul.hi.s32", binary<u32, u32, u32, MulHiS32>},
      {"mul.hi.u64", binary<u64, u64, u64, MulHiU64>},
      {"mul.hi.s64", binary<u64, u64, u64, MulHiS64>},
      {"mul.wide.u16", binary<u32, u32, u32, MulWideU16>},
      {"mul.wide.s16", binary<u32, u32, u32, MulWideS16>},
      {"mul.wide.u32", binary<u64, u32, u32, MulWideU32>},
      {"mul.wide.s32", binary<u64, u32, u32, MulWideS32>},
      {"mul24.lo.u32", binary<u32, u32, u32, Mul24U>},
      {"mul24.lo.s32", binary<u32, u32, u32, Mul24S>},
      {"mul24.hi.u32", binary<u32, u32, u32, Mul24HiU>},
      {"mul24.hi.s32", binary<u32, u32, u32, Mul24HiS>},
      {"mad24.lo.u32", ternary<u32, u32, u32, u32, ThenAdd<Mul24U>>},
      {"mad24.lo.s32", ternary<u32, u32, u32, u32, ThenAdd<Mul24S>>},
      {"mad24.hi.u32", ternary<u32, u32, u32, u32, ThenAdd<Mul24HiU>>},
      {"mad24.hi.s32", ternary<u32, u32, u32, u32, ThenAdd<Mul24HiS>>},
      {"mad24.hi.sat.s32", ternary<u32, u32, u32, u32, Mad24HiSat>},
      {"mad.lo.16", ternary<u32, u32, u32, u32, MadLo16>},
      {"mad.lo.32", ternary<u32, u32, u32, u32, MadLo>},
      {"mad.lo.64", ternary<u64, u64, u64, u64, MadLo>},
      {"mad.hi.u16", ternary<u32, u32, u32, u32, MadHi16U>},
      {"mad.hi.s16", ternary<u32, u32, u32, u32, MadHi16S>},
      {"mad.hi.u32", ternary<u32, u32, u32, u32, ThenAdd<MulHiU32>>},
      {"mad.hi.s32", ternary<u32, u32, u32, u32, ThenAdd<MulHiS32>>},
      {"mad.hi.sat.s32", ternary<u32, u32, u32, u32, MadHiSat>},
      {"mad.hi.u64", ternary<u64, u64, u64, u64, ThenAdd<MulHiU64>>},
      {"mad.hi.s64", ternary<u64, u64, u64, u64, ThenAdd<MulHiS64>>},
      {"mad.wide.u16", ternary<u32, u32, u32, u32, ThenAdd<MulWideU16>>},
      {"mad.wide.s16", ternary<u32, u32, u32, u32, ThenAdd<MulWideS16>>},
      {"mad.wide.u32", ternary<u64, u32, u32, u64, ThenAdd<MulWideU32>>},
      {"mad.wide.s32", ternary<u64, u32, u32, u64, ThenAdd<MulWideS32>>},
      {"div.u16", scalar_binary<u32, DivU16>},
      {"div.s16", scalar_binary<u32, DivS16>},
      {"div.u32", scalar_binary<u32, DivU<u32>>},
      {"div.s32", scalar_binary<u32, DivS<u32, s32>>},
      {"div.u64", scalar_binary<u64, DivU<u64>>},
      {"div.s64", scalar_binary<u64, DivS<u64, s64>>},
      {"rem.u16", scalar_binary<u32, RemU<u32>>},
      {"rem.s16", scalar_binary<u32, RemS16>},
      {"rem.u32", scalar_binary<u32, RemU<u32>>},
      {"rem.s32", scalar_binary<u32, RemS<u32, s32>>},
      {"rem.u64", scalar_binary<u64, RemU<u64>>},
      {"rem.s64", scalar_binary<u64, RemS<u64, s64>>},
      {"min.u16", binary<u32, u32, u32, MinS<u32>>},
      {"min.s16", binary<u32, u32, u32, MinS16>},
      {"min.u32", binary<u32, u32, u32, MinS<u32>>},
      {"min.s32", binary<u32, u32, u32, MinS<s32>>},
      {"min.u64", binary<u64, u64, u64, MinS<u64>>},
      {"min.s64", binary<u64, u64, u64, MinS<s64>>},
      {"min.u16x2", binary<u32, u32, u32, Pair<MinS<u32>>>},
      {"min.s16x2", binary<u32, u32, u32, Pair<MinS16>>},
      {"min.relu.s32", binary<u32, u32, u32, Relu32<MinS<s32>>>},
      {"min.relu.s16x2", binary<u32, u32, u32, Pair<Relu16<MinS16>>>},
      {"max.u16", binary<u32, u32, u32, MaxS<u32>>},
      {"max.s16", binary<u32, u32, u32, MaxS16>},
      {"max.u32", binary<u32, u32, u32, MaxS<u32>>},
      {"max.s32", binary<u32, u32, u32, MaxS<s32>>},
      {"max.u64", binary<u64, u64, u64, MaxS<u64>>},
      {"max.s64", binary<u64, u64, u64, MaxS<s64>>},
      {"max.u16x2", binary<u32, u32, u32, Pair<MaxS<u32>>>},
      {"max.s16x2", binary<u32, u32, u32, Pair<MaxS16>>},
      {"max.relu.s32", binary<u32, u32, u32, Relu32<MaxS<s32>>>},
      {"max.relu.s16x2", binary<u32, u32, u32, Pair<Relu16<MaxS16>>>},
      {"abs.s16", unary<u32, u32, Abs16>},
      {"abs.s32", unary<u32, u32, Abs<s32>>},
      {"abs.s64", unary<u64, u64, Abs<s64>>},
      {"neg.16", unary<u32, u32, Neg16>},
      {"neg.32", unary<u32, u32, Neg>},
      {"neg.64", unary<u64, u64, Neg>},
      {"sad.u16", ternary32<SadU16>},
      {"sad.s16", ternary32<SadS16>},
      {"sad.u32", ternary32<Sad<u32>>},
      {"sad.s32", ternary32<Sad<s32>>},
      {"sad.u64", ternary64<Sad<u64>>},
      {"sad.s64", ternary64<Sad<s64>>},
      {"dp4a.u32.u32", ternary32<Dot4<false, false>>},
      {"dp4a.u32.s32", ternary32<Dot4<false, true>>},
      {"dp4a.s32.u32", ternary32<Dot4<true, false>>},
      {"dp4a.s32.s32", ternary32<Dot4<true, true>>},
      {"dp2a.lo.u32.u32", ternary32<Dot2<0, false, false>>},
      {"dp2a.lo.u32.s32", ternary32<Dot2<0, false, true>>},
      {"dp2a.lo.s32.u32", ternary32<Dot2<0, true, false>>},
      {"dp2a.lo.s32.s32", ternary32<Dot2<0, true, true>>},
      {"dp2a.hi.u32.u32", ternary32<Dot2<2, false, false>>},
      {"dp2a.hi.u32.s32", ternary32<Dot2<2, false, true>>},
      {"dp2a.hi.s32.u32", ternary32<Dot2<2, true, false>>},
      {"dp2a.hi.s32.s32", ternary32<Dot2<2, true, true>>},
  };
  return entries;
}
