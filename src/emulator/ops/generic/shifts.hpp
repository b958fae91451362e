// Shifts, of one word and of two.

// Shift amounts are unsigned; at the width and beyond, everything is shifted out.
struct Shl32 {
  static u32 of(u32 a, u32 b) { return b > 31 ? 0 : a << b; }
};
struct Shr32 {
  static u32 of(u32 a, u32 b) { return b > 31 ? 0 : a >> b; }
};
struct Sar32 {
  static u32 of(u32 a, u32 b) { return static_cast<u32>(static_cast<s32>(a) >> (b > 31 ? 31 : b)); }
};
struct Shl64 {
  static u64 of(u64 a, u32 b) { return b > 63 ? 0 : a << b; }
};
struct Shr64 {
  static u64 of(u64 a, u32 b) { return b > 63 ? 0 : a >> b; }
};
struct Sar64 {
  static u64 of(u64 a, u32 b) {
    const u64 sign = 0 - (a >> 63);
    const u32 by = b > 63 ? 63 : b;
    return ((a ^ sign) >> by) ^ sign;
  }
};
struct Shl16 {
  static u32 of(u32 a, u32 b) { return (b > 15 ? 0 : a << (b & 15)) & 0xffffu; }
};
struct Shr16 {
  static u32 of(u32 a, u32 b) { return b > 15 ? 0 : a >> (b & 15); }
};
struct Sar16 {
  static u32 of(u32 a, u32 b) { return static_cast<u32>(s16_of(a) >> (b > 15 ? 15 : b)) & 0xffffu; }
};
// shf: the 64 bits b:a; .l gives the high word of a shift left, .r the low word of a shift right.
template <bool Clamp>
struct ShfL {
  static u32 of(u32 a, u32 b, u32 c) {
    const u32 n = Clamp ? (c > 32 ? 32 : c) : (c & 31);
    return Shl32::of(b, n) | Shr32::of(a, 32 - n);
  }
};
template <bool Clamp>
struct ShfR {
  static u32 of(u32 a, u32 b, u32 c) {
    const u32 n = Clamp ? (c > 32 ? 32 : c) : (c & 31);
    return Shr32::of(a, n) | Shl32::of(b, 32 - n);
  }
};
