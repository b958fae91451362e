// mov between a register and the parts of it that a vector names, {low, .., high}. op.mode: bits of
// a part; op.list: the parts' rows.

inline u32 part_mask(const Op& op) { return op.mode == 32 ? ~0u : (1u << op.mode) - 1; }

template <class D>
Step pack(const Op& op, Warp& warp, u32 lanes) {
  D* d = result_of<D>(warp, op.d);
  const u32 mask = part_mask(op);
  const int bits = op.mode;
  if (op.count == 2 && lanes == ~0u) [[likely]] {
    const u32* low = lanes_of<u32>(warp, op.list[0]);
    const u32* high = lanes_of<u32>(warp, op.list[1]);
    MICROSCALE_LANES for (int i = 0; i < 32; ++i) d[i] =
        static_cast<D>(low[i] & mask) | static_cast<D>(high[i] & mask) << bits;
    return Step::next;
  }
  alignas(64) D r[32] = {};
  for (int k = 0; k < op.count; ++k) {
    const u32* part = lanes_of<u32>(warp, op.list[k]);
    const int shift = k * bits;
    MICROSCALE_LANES for (int i = 0; i < 32; ++i) r[i] |= static_cast<D>(part[i] & mask) << shift;
  }
  keep(d, r, lanes);
  return Step::next;
}

template <class A>
Step unpack(const Op& op, Warp& warp, u32 lanes) {
  const u32 mask = part_mask(op);
  const int bits = op.mode;
  if (op.count == 2 && lanes == ~0u) [[likely]] {
    const A* a = lanes_of<A>(warp, op.a);
    u32* low = result_of<u32>(warp, op.list[0]);
    u32* high = result_of<u32>(warp, op.list[1]);
    MICROSCALE_LANES for (int i = 0; i < 32; ++i) {
      const A both = a[i];
      low[i] = static_cast<u32>(both) & mask;
      high[i] = static_cast<u32>(both >> bits) & mask;
    }
    return Step::next;
  }
  alignas(64) A a[32];
  std::memcpy(a, warp.row(op.a), sizeof a);
  for (int k = 0; k < op.count; ++k) {
    u32* part = result_of<u32>(warp, op.list[k]);
    const int shift = k * bits;
    MICROSCALE_LANES for (int i = 0; i < 32; ++i) part[i] =
        chosen(lanes, i, static_cast<u32>(a[i] >> shift) & mask, part[i]);
  }
  return Step::next;
}
