// Logic, bit fields, byte permutation, and selection by a predicate; the family of shifts.hpp, too.

struct And {
  template <class T>
  static T of(T a, T b) {
    return a & b;
  }
};
struct Or {
  template <class T>
  static T of(T a, T b) {
    return a | b;
  }
};
struct Xor {
  template <class T>
  static T of(T a, T b) {
    return a ^ b;
  }
};
struct Not {
  template <class T>
  static T of(T a) {
    return ~a;
  }
};
struct Not16 {
  static u32 of(u32 a) { return ~a & 0xffffu; }
};
struct Cnot {
  template <class T>
  static T of(T a) {
    return a == 0 ? 1 : 0;
  }
};
struct Same {
  template <class T>
  static T of(T a) {
    return a;
  }
};

// bfe and bfi of 32 bits use the low 8 bits of position and length, those of 64 bits all of them
// (an H200 computes them in several instructions); a field may reach beyond the value.
template <class U>
inline u32 field_number(u32 a) {
  return sizeof(U) == 4 ? a & 255 : a < 255 ? a : 255;
}
template <class U>
struct BfeU {
  static U of(U a, u32 b, u32 c) {
    constexpr u32 width = 8 * sizeof(U);
    const u32 position = field_number<U>(b), length = field_number<U>(c);
    const U low = position >= width ? U{0} : a >> (position & (width - 1));
    return length >= width ? low : low & ((U{1} << (length & (width - 1))) - 1);
  }
};
template <class U>
struct BfeS {
  static U of(U a, u32 b, u32 c) {
    constexpr u32 width = 8 * sizeof(U);
    const u32 position = field_number<U>(b), length = field_number<U>(c);
    if (length == 0) return 0;
    const u32 last = position + length - 1;
    const U sign = (a >> (last < width ? last : width - 1)) & 1;
    const U low = position >= width ? U{0} : a >> (position & (width - 1));
    // Bits of the result that come from the value itself; the others are copies of the sign.
    const u32 inside = position >= width ? 0 : width - position;
    const u32 kept = length < inside ? length : inside;
    const U mask = kept >= width ? ~U{0} : (U{1} << (kept & (width - 1))) - 1;
    return (low & mask) | (sign ? ~mask : U{0});
  }
};
template <class U>
struct Bfi {  // a into b
  static U of(U a, U b, u32 c, u32 d) {
    constexpr u32 width = 8 * sizeof(U);
    const u32 position = field_number<U>(c), length = field_number<U>(d);
    const U field = length >= width ? ~U{0} : (U{1} << (length & (width - 1))) - 1;
    const U mask = position >= width ? U{0} : field << (position & (width - 1));
    const U moved = position >= width ? U{0} : a << (position & (width - 1));
    return (b & ~mask) | (moved & mask);
  }
};
// bmsk: b ones from bit a on; szext: the low b bits of a, zero- or sign-extended. Position and
// count are the low five bits of the operand, except that .clamp keeps 32 and more as 32.
template <bool Clamp>
struct Bmsk {
  static u32 of(u32 a, u32 b) {
    const u32 position = a & 31, length = b & 31;
    const u32 from = Clamp && a > 31 ? 0u : ~0u << position;
    const bool to_the_top = (Clamp && b > 31) || position + length > 31;
    return from & (to_the_top ? ~0u : (u32{1} << ((position + length) & 31)) - 1);
  }
};
template <bool Clamp, bool Signed>
struct Szext {
  static u32 of(u32 a, u32 b) {
    const u32 length = b & 31;
    const u32 low = a & ((u32{1} << length) - 1), sign = u32{1} << ((length - 1) & 31);
    const u32 extended = Signed && length > 0 ? (low ^ sign) - sign : low;
    return Clamp && b > 31 ? a : extended;
  }
};
struct Brev32 {
  static u32 of(u32 a) {
    a = ((a >> 1) & 0x55555555u) | ((a & 0x55555555u) << 1);
    a = ((a >> 2) & 0x33333333u) | ((a & 0x33333333u) << 2);
    a = ((a >> 4) & 0x0f0f0f0fu) | ((a & 0x0f0f0f0fu) << 4);
    a = ((a >> 8) & 0x00ff00ffu) | ((a & 0x00ff00ffu) << 8);
    return (a >> 16) | (a << 16);
  }
};
struct Brev64 {
  static u64 of(u64 a) {
    return (static_cast<u64>(Brev32::of(static_cast<u32>(a))) << 32) |
           Brev32::of(static_cast<u32>(a >> 32));
  }
};
// Counting by shifts and masks, which become vectors where the host's own instructions do not.
struct Popc {
  template <class T>
  static u32 of(T a) {
    a -= (a >> 1) & static_cast<T>(0x5555555555555555u);
    a = (a & static_cast<T>(0x3333333333333333u)) +
        ((a >> 2) & static_cast<T>(0x3333333333333333u));
    a = (a + (a >> 4)) & static_cast<T>(0x0f0f0f0f0f0f0f0fu);
    a += a >> 8;
    a += a >> 16;
    if (sizeof(T) == 8) a += a >> (sizeof(T) * 4);
    return static_cast<u32>(a) & 127;
  }
};
struct Clz {
  template <class T>
  static u32 of(T a) {
    a |= a >> 1;
    a |= a >> 2;
    a |= a >> 4;
    a |= a >> 8;
    a |= a >> 16;
    if (sizeof(T) == 8) a |= a >> (sizeof(T) * 4);
    return Popc::of(static_cast<T>(~a));
  }
};
// bfind: the highest bit that is not the sign, or all ones; .shiftamt counts from the top.
template <bool Shift>
struct BfindU {
  template <class T>
  static u32 of(T a) {
    const u32 leading = Clz::of(a);
    if (Shift) return a == 0 ? ~0u : leading;
    return static_cast<u32>(8 * sizeof(T)) - 1 - leading;
  }
};
template <bool Shift>
struct BfindS {
  template <class T>
  static u32 of(T a) {
    return BfindU<Shift>::of(static_cast<T>((a >> (8 * sizeof(T) - 1)) ? ~a : a));
  }
};
struct Fns {
  static u32 of(u32 mask, u32 base, u32 offset) {
    const s32 wanted = static_cast<s32>(offset);
    const s32 step = wanted < 0 ? -1 : 1;
    u32 left = wanted < 0 ? 0 - offset : offset;
    for (s32 at = static_cast<s32>(base & 31); at >= 0 && at < 32; at += step)
      if (mask >> at & 1) {
        if (left <= 1) return static_cast<u32>(at);
        --left;
      } else if (left == 0) {
        return ~0u;
      }
    return ~0u;
  }
};

inline u32 prmt_byte(u64 bytes, u32 selector) {
  const u32 byte = static_cast<u32>(bytes >> ((selector & 7) * 8)) & 255;
  return (selector & 8) ? ((byte & 128) ? 255 : 0) : byte;
}
struct Prmt {
  static u32 of(u32 a, u32 b, u32 c) {
    const u64 bytes = (static_cast<u64>(b) << 32) | a;
    return prmt_byte(bytes, c) | (prmt_byte(bytes, c >> 4) << 8) |
           (prmt_byte(bytes, c >> 8) << 16) | (prmt_byte(bytes, c >> 12) << 24);
  }
};
/// The named modes, as a default-mode selector for each value of c & 3.
template <int Mode>
struct PrmtMode {
  static constexpr u16 selectors[6][4] = {{0x3210, 0x4321, 0x5432, 0x6543},   // f4e
                                          {0x5670, 0x6701, 0x7012, 0x0123},   // b4e
                                          {0x0000, 0x1111, 0x2222, 0x3333},   // rc8
                                          {0x3210, 0x3211, 0x3222, 0x3333},   // ecl
                                          {0x0000, 0x1110, 0x2210, 0x3210},   // ecr
                                          {0x1010, 0x3232, 0x1010, 0x3232}};  // rc16
  static u32 of(u32 a, u32 b, u32 c) { return Prmt::of(a, b, selectors[Mode][c & 3]); }
};

/// With a selector that is an immediate: one byte move for all lanes. op.value is the selector.
Step prmt_constant(const Op& op, Warp& warp, u32 lanes) {
  u32* d = result_of<u32>(warp, op.d);
  const u32* a = lanes_of<u32>(warp, op.a);
  const u32* b = lanes_of<u32>(warp, op.b);
  u32 shift[4], from_b[4], spread[4], left[4], right[4];
  const u32* from[4];
  for (u32 k = 0; k < 4; ++k) {
    const u32 selector = static_cast<u32>(op.value >> (4 * k)) & 15;
    shift[k] = (selector & 3) * 8;
    from_b[k] = (selector & 4) ? ~0u : 0;
    spread[k] = (selector & 8) ? ~0u : 0;
    from[k] = (selector & 4) ? b : a;
    left[k] = 8 * k > shift[k] ? 8 * k - shift[k] : 0;
    right[k] = 8 * k > shift[k] ? 0 : shift[k] - 8 * k;
  }
  alignas(64) u32 r[32];
  if ((op.value & 0x8888) == 0) {  // the usual: no byte is a sign
    MICROSCALE_LANES for (int i = 0; i < 32; ++i) r[i] =
        (((from[0][i] << left[0]) >> right[0]) & 0xffu) |
        (((from[1][i] << left[1]) >> right[1]) & 0xff00u) |
        (((from[2][i] << left[2]) >> right[2]) & 0xff0000u) |
        (((from[3][i] << left[3]) >> right[3]) & 0xff000000u);
    keep(d, r, lanes);
    return Step::next;
  }
  MICROSCALE_LANES for (int i = 0; i < 32; ++i) {
    u32 result = 0;
    for (int k = 0; k < 4; ++k) {
      const u32 word = (a[i] & ~from_b[k]) | (b[i] & from_b[k]);
      const u32 byte = (word >> shift[k]) & 255;
      const u32 sign = (0 - (byte >> 7)) & 255;
      result |= ((byte & ~spread[k]) | (sign & spread[k])) << (8 * k);
    }
    r[i] = result;
  }
  keep(d, r, lanes);
  return Step::next;
}

/// op.value is the truth table, made here into the polynomial over the three bits that has it.
template <class T>
Step lop3(const Op& op, Warp& warp, u32 lanes) {
  T* d = result_of<T>(warp, op.d);
  const T* a = lanes_of<T>(warp, op.a);
  const T* b = lanes_of<T>(warp, op.b);
  const T* c = lanes_of<T>(warp, op.c);
  u32 terms = static_cast<u32>(op.value);
  terms ^= (terms & 0x55u) << 1;
  terms ^= (terms & 0x33u) << 2;
  terms ^= (terms & 0x0fu) << 4;
  T term[8];
  for (int k = 0; k < 8; ++k) term[k] = (terms >> k & 1) ? ~T{0} : T{0};
  alignas(64) T r[32];
  MICROSCALE_LANES for (int i = 0; i < 32; ++i) {
    const T x = a[i], y = b[i], z = c[i];
    r[i] = term[0] ^ (term[1] & z) ^ (y & (term[2] ^ (term[3] & z))) ^
           (x & (term[4] ^ (term[5] & z) ^ (y & (term[6] ^ (term[7] & z)))));
  }
  keep(d, r, lanes);
  return Step::next;
}

/// d = p ? a : b, the predicate in op.c.
template <class T>
Step selp(const Op& op, Warp& warp, u32 lanes) {
  T* d = result_of<T>(warp, op.d);
  const T* a = lanes_of<T>(warp, op.a);
  const T* b = lanes_of<T>(warp, op.b);
  const u32 p = warp.predicate(op, op.c, 1);
  if (lanes == ~0u) [[likely]] {
    MICROSCALE_LANES for (int i = 0; i < 32; ++i) d[i] = chosen(p, i, a[i], b[i]);
    return Step::next;
  }
  MICROSCALE_LANES for (int i = 0; i < 32; ++i) d[i] =
      chosen(lanes, i, chosen(p, i, a[i], b[i]), d[i]);
  return Step::next;
}

struct PopcWide {
  static u32 of(u64 a) { return Popc::of(a); }
};

Family bits_family() {
  static constexpr HandlerEntry entries[] = {
      {"mov.32", unary<u32, u32, Same>},
      {"mov.64", unary<u64, u64, Same>},
      {"pack.32", pack<u32>},
      {"pack.64", pack<u64>},
      {"unpack.32", unpack<u32>},
      {"unpack.64", unpack<u64>},
      {"and.32", binary<u32, u32, u32, And>},
      {"and.64", binary<u64, u64, u64, And>},
      {"or.32", binary<u32, u32, u32, Or>},
      {"or.64", binary<u64, u64, u64, Or>},
      {"xor.32", binary<u32, u32, u32, Xor>},
      {"xor.64", binary<u64, u64, u64, Xor>},
      {"not.16", unary<u32, u32, Not16>},
      {"not.32", unary<u32, u32, Not>},
      {"not.64", unary<u64, u64, Not>},
      {"cnot.32", unary<u32, u32, Cnot>},
      {"cnot.64", unary<u64, u64, Cnot>},
      {"shl.16", binary<u32, u32, u32, Shl16>},
      {"shl.32", binary<u32, u32, u32, Shl32>},
      {"shl.64", binary<u64, u64, u32, Shl64>},
      {"shr.u16", binary<u32, u32, u32, Shr16>},
      {"shr.s16", binary<u32, u32, u32, Sar16>},
      {"shr.u32", binary<u32, u32, u32, Shr32>},
      {"shr.s32", binary<u32, u32, u32, Sar32>},
      {"shr.u64", binary<u64, u64, u32, Shr64>},
      {"shr.s64", binary<u64, u64, u32, Sar64>},
      {"shf.l.wrap", ternary<u32, u32, u32, u32, ShfL<false>>},
      {"shf.l.clamp", ternary<u32, u32, u32, u32, ShfL<true>>},
      {"shf.r.wrap", ternary<u32, u32, u32, u32, ShfR<false>>},
      {"shf.r.clamp", ternary<u32, u32, u32, u32, ShfR<true>>},
      {"bfe.u32", ternary<u32, u32, u32, u32, BfeU<u32>>},
      {"bfe.s32", ternary<u32, u32, u32, u32, BfeS<u32>>},
      {"bfe.u64", ternary<u64, u64, u32, u32, BfeU<u64>>},
      {"bfe.s64", ternary<u64, u64, u32, u32, BfeS<u64>>},
      {"bfi.32", quaternary<u32, Bfi<u32>>},
      {"bfi.64", quaternary<u64, Bfi<u64>>},
      {"bmsk.clamp", binary32<Bmsk<true>>},
      {"bmsk.wrap", binary32<Bmsk<false>>},
      {"szext.clamp.u32", binary32<Szext<true, false>>},
      {"szext.wrap.u32", binary32<Szext<false, false>>},
      {"szext.clamp.s32", binary32<Szext<true, true>>},
      {"szext.wrap.s32", binary32<Szext<false, true>>},
      {"brev.32", unary<u32, u32, Brev32>},
      {"brev.64", unary<u64, u64, Brev64>},
      {"popc.32", unary<u32, u32, Popc>},
      {"popc.64", unary<u32, u64, PopcWide>},
      {"clz.32", unary<u32, u32, Clz>},
      {"clz.64", unary<u32, u64, Clz>},
      {"bfind.u32", unary<u32, u32, BfindU<false>>},
      {"bfind.s32", unary<u32, u32, BfindS<false>>},
      {"bfind.u64", unary<u32, u64, BfindU<false>>},
      {"bfind.s64", unary<u32, u64, BfindS<false>>},
      {"bfind.shiftamt.u32", unary<u32, u32, BfindU<true>>},
      {"bfind.shiftamt.s32", unary<u32, u32, BfindS<true>>},
      {"bfind.shiftamt.u64", unary<u32, u64, BfindU<true>>},
      {"bfind.shiftamt.s64", unary<u32, u64, BfindS<true>>},
      {"fns.32", ternary<u32, u32, u32, u32, Fns>},
      {"prmt", ternary<u32, u32, u32, u32, Prmt>},
      {"prmt.constant", prmt_constant},
      {"prmt.f4e", ternary<u32, u32, u32, u32, PrmtMode<0>>},
      {"prmt.b4e", ternary<u32, u32, u32, u32, PrmtMode<1>>},
      {"prmt.rc8", ternary<u32, u32, u32, u32, PrmtMode<2>>},
      {"prmt.ecl", ternary<u32, u32, u32, u32, PrmtMode<3>>},
      {"prmt.ecr", ternary<u32, u32, u32, u32, PrmtMode<4>>},
      {"prmt.rc16", ternary<u32, u32, u32, u32, PrmtMode<5>>},
      {"lop3.32", lop3<u32>},
      {"selp.32", selp<u32>},
      {"selp.64", selp<u64>},
  };
  return entries;
}
