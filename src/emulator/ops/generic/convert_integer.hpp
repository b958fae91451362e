// cvt between integers.

/// Integers: op.value holds source bits, destination bits, and flags (1 source signed, 2
/// destination signed, 4 saturate), a byte each. D, A: the rows. A destination wider than its type
/// is extended.
template <class D, class A>
Step convert_integer(const Op& op, Warp& warp, u32 lanes) {
  const int from = static_cast<int>(op.value & 255), to = static_cast<int>(op.value >> 8 & 255);
  const bool from_signed = op.value >> 16 & 1, to_signed = op.value >> 16 & 2,
             saturate = op.value >> 16 & 4;
  D* d = result_of<D>(warp, op.d);
  const A* a = lanes_of<A>(warp, op.a);
  const A from_mask = from >= static_cast<int>(8 * sizeof(A)) ? ~A{0} : (A{1} << from) - 1;
  const A from_sign = from_signed ? A{1} << (from - 1) : 0;
  const D to_mask = to >= static_cast<int>(8 * sizeof(D)) ? ~D{0} : (D{1} << to) - 1;
  if (!saturate && !(op.mode && to_signed) && (!from_signed || to <= from) && lanes == ~0u) {
    const D mask = to_mask & static_cast<D>(from_mask);  // the usual: bits that stay, zeros above
    MICROSCALE_LANES for (int i = 0; i < 32; ++i) d[i] = static_cast<D>(a[i]) & mask;
    return Step::next;
  }
  alignas(64) D r[32];
  if (saturate) {
    const __int128 top = (__int128{1} << (to - (to_signed ? 1 : 0))) - 1;
    const __int128 bottom = to_signed ? -(__int128{1} << (to - 1)) : __int128{0};
    for (int i = 0; i < 32; ++i) {
      const A low = a[i] & from_mask;
      __int128 value = low;
      if (low & from_sign) value -= __int128{1} << from;
      value = value > top ? top : value < bottom ? bottom : value;
      r[i] = static_cast<D>(value) & to_mask;
    }
  } else if (sizeof(D) > sizeof(A)) {
    MICROSCALE_LANES for (int i = 0; i < 32; ++i) {
      const D low = static_cast<D>(a[i] & from_mask);
      r[i] = ((low ^ static_cast<D>(from_sign)) - static_cast<D>(from_sign)) & to_mask;
    }
  } else {
    MICROSCALE_LANES for (int i = 0; i < 32; ++i) {
      const A low = a[i] & from_mask;
      r[i] = static_cast<D>((low ^ from_sign) - from_sign) & to_mask;
    }
  }
  if (op.mode) {  // the register's bits, when it is wider than the type
    const D sign = to_signed ? D{1} << (to - 1) : 0;
    const D all = op.mode >= 8 * sizeof(D) ? ~D{0} : (D{1} << op.mode) - 1;
    MICROSCALE_LANES for (int i = 0; i < 32; ++i) r[i] = ((r[i] ^ sign) - sign) & all;
  }
  keep(d, r, lanes);
  return Step::next;
}
