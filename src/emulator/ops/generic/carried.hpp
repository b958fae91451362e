// Sums and products with carries, a lane at a time, and the high part of products of 24 bits.

/// add.cc, addc, sub.cc, subc and mad's: the carry is predicate op.extra. mode: bit 0 takes a carry
/// in, bit 1 gives one out, bit 2 subtracts.
template <class T>
Step carried(const Op& op, Warp& warp, u32 lanes) {
  T* d = lanes_of<T>(warp, op.d);
  const T* a = lanes_of<T>(warp, op.a);
  const T* b = lanes_of<T>(warp, op.b);
  const bool subtracts = op.mode & 4;
  u32 carries = 0;
  for (u32 rest = lanes; rest; rest &= rest - 1) {
    const int i = std::countr_zero(rest);
    const unsigned __int128 in = (op.mode & 1) ? (warp.predicates[op.extra] >> i & 1) : subtracts;
    const unsigned __int128 sum =
        static_cast<unsigned __int128>(a[i]) + (subtracts ? static_cast<T>(~b[i]) : b[i]) + in;
    d[i] = static_cast<T>(sum);
    carries |= static_cast<u32>((sum >> (8 * sizeof(T))) & 1) << i;
  }
  if (op.mode & 2) warp.set_predicate(op.extra, lanes, carries);
  return Step::next;
}

/// mad.cc, madc: the low or (mode bit 3) high half of a product, signed by mode bit 4, then c and
/// the carry added as carried() does.
template <class T, class S>
Step carried_product(const Op& op, Warp& warp, u32 lanes) {
  T* d = lanes_of<T>(warp, op.d);
  const T* a = lanes_of<T>(warp, op.a);
  const T* b = lanes_of<T>(warp, op.b);
  const T* c = lanes_of<T>(warp, op.c);
  u32 carries = 0;
  for (u32 rest = lanes; rest; rest &= rest - 1) {
    const int i = std::countr_zero(rest);
    const unsigned __int128 product =
        (op.mode & 16) ? static_cast<unsigned __int128>(
                             static_cast<__int128>(static_cast<S>(a[i])) * static_cast<S>(b[i]))
                       : static_cast<unsigned __int128>(a[i]) * b[i];
    const T part = static_cast<T>((op.mode & 8) ? product >> (8 * sizeof(T)) : product);
    const unsigned __int128 sum = static_cast<unsigned __int128>(part) + c[i] +
                                  ((op.mode & 1) ? warp.predicates[op.extra] >> i & 1 : 0);
    d[i] = static_cast<T>(sum);
    carries |= static_cast<u32>((sum >> (8 * sizeof(T))) & 1) << i;
  }
  if (op.mode & 2) warp.set_predicate(op.extra, lanes, carries);
  return Step::next;
}

// Of the 48 bits of a product of two of 24: the upper 32.
struct Mul24HiU {
  static u32 of(u32 a, u32 b) {
    return static_cast<u32>(static_cast<u64>(a & 0xffffffu) * (b & 0xffffffu) >> 16);
  }
};
struct Mul24HiS {
  static u32 of(u32 a, u32 b) {
    const s64 x = static_cast<s32>(a << 8) >> 8, y = static_cast<s32>(b << 8) >> 8;
    return static_cast<u32>(static_cast<u64>(x * y) >> 16);
  }
};
