// Loops over the 32 lanes of a warp: the shapes that most instructions share. Included once per
// instruction set, inside a namespace and region that target.hpp opens; no lambdas here.
// A shape computes all 32 lanes, whichever take part, and keeps what the mask says; so a functor's
// `of` must not trap or loop for long on any bits.

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s16 = std::int16_t;
using s32 = std::int32_t;
using s64 = std::int64_t;

template <class T>
inline T* lanes_of(const Warp& warp, Slot slot) {
  return reinterpret_cast<T*>(warp.row(slot));
}

/// The row of a destination: never a constant.
template <class T>
inline T* result_of(const Warp& warp, Slot slot) {
  return reinterpret_cast<T*>(warp.base[0] + slot);
}

/// a where the mask has a bit, else b. Of bits, not of conditions: the compiler would load a and b
/// under masks of their own.
template <class T>
inline T chosen(u32 mask, int lane, T a, T b) {
  const s32 all = (mask & lane_bit[lane]) == lane_bit[lane] ? -1 : 0;
  const T m = static_cast<T>(static_cast<s64>(all));
  return (a & m) | (b & ~m);
}

/// d = r where the mask has a bit.
template <class T>
inline void keep(T* d, const T* r, u32 lanes) {
  if (lanes == ~0u) [[likely]] {
    MICROSCALE_LANES for (int i = 0; i < 32; ++i) d[i] = r[i];
    return;
  }
  MICROSCALE_LANES for (int i = 0; i < 32; ++i) d[i] = chosen(lanes, i, r[i], d[i]);
}

/// D, A: what a lane of the row is, u32 or u64.
template <class D, class A, class F>
Step unary(const Op& op, Warp& warp, u32 lanes) {
  D* d = result_of<D>(warp, op.d);
  const A* a = lanes_of<A>(warp, op.a);
  if (lanes == ~0u) [[likely]] {
    MICROSCALE_LANES for (int i = 0; i < 32; ++i) d[i] = static_cast<D>(F::of(a[i]));
    return Step::next;
  }
  MICROSCALE_LANES for (int i = 0; i < 32; ++i) d[i] =
      chosen(lanes, i, static_cast<D>(F::of(a[i])), d[i]);
  return Step::next;
}

template <class D, class A, class B, class F>
Step binary(const Op& op, Warp& warp, u32 lanes) {
  D* d = result_of<D>(warp, op.d);
  const A* a = lanes_of<A>(warp, op.a);
  const B* b = lanes_of<B>(warp, op.b);
  if (lanes == ~0u) [[likely]] {
    MICROSCALE_LANES for (int i = 0; i < 32; ++i) d[i] = static_cast<D>(F::of(a[i], b[i]));
    return Step::next;
  }
  MICROSCALE_LANES for (int i = 0; i < 32; ++i) d[i] =
      chosen(lanes, i, static_cast<D>(F::of(a[i], b[i])), d[i]);
  return Step::next;
}

template <class D, class A, class B, class C, class F>
Step ternary(const Op& op, Warp& warp, u32 lanes) {
  D* d = result_of<D>(warp, op.d);
  const A* a = lanes_of<A>(warp, op.a);
  const B* b = lanes_of<B>(warp, op.b);
  const C* c = lanes_of<C>(warp, op.c);
  if (lanes == ~0u) [[likely]] {
    MICROSCALE_LANES for (int i = 0; i < 32; ++i) d[i] = static_cast<D>(F::of(a[i], b[i], c[i]));
    return Step::next;
  }
  MICROSCALE_LANES for (int i = 0; i < 32; ++i) d[i] =
      chosen(lanes, i, static_cast<D>(F::of(a[i], b[i], c[i])), d[i]);
  return Step::next;
}

// All operands of one width.
template <class F>
inline constexpr Handler unary32 = unary<u32, u32, F>;
template <class F>
inline constexpr Handler unary64 = unary<u64, u64, F>;
template <class F>
inline constexpr Handler binary32 = binary<u32, u32, u32, F>;
template <class F>
inline constexpr Handler binary64 = binary<u64, u64, u64, F>;
template <class F>
inline constexpr Handler ternary32 = ternary<u32, u32, u32, u32, F>;
template <class F>
inline constexpr Handler ternary64 = ternary<u64, u64, u64, u64, F>;

/// Four sources: the fourth is op.list[0].
template <class D, class F>
Step quaternary(const Op& op, Warp& warp, u32 lanes) {
  D* d = result_of<D>(warp, op.d);
  const D* a = lanes_of<D>(warp, op.a);
  const D* b = lanes_of<D>(warp, op.b);
  const u32* c = lanes_of<u32>(warp, op.c);
  const u32* e = lanes_of<u32>(warp, op.list[0]);
  alignas(64) D r[32];
  MICROSCALE_LANES for (int i = 0; i < 32; ++i) r[i] =
      static_cast<D>(F::of(a[i], b[i], c[i], e[i]));
  keep(d, r, lanes);
  return Step::next;
}

/// The host's rounding mode, for the lifetime.
class HostRounding {
 public:
  explicit HostRounding(int mode) : before_(std::fegetround()) { std::fesetround(mode); }
  ~HostRounding() { std::fesetround(before_); }

 private:
  int before_;
};

/// op.mode: 1 toward zero, 2 down, 3 up; then the handler Run, kept behind a volatile pointer.
template <Handler Run>
Step rounded(const Op& op, Warp& warp, u32 lanes) {
  static const volatile Handler hidden = Run;
  const HostRounding rounding(op.mode == 1   ? FE_TOWARDZERO
                              : op.mode == 2 ? FE_DOWNWARD
                                             : FE_UPWARD);
  const Handler run = hidden;
  return run(op, warp, lanes);
}

/// The mask of lanes for which F::of(a, b) holds.
template <class T, class F>
inline u32 compare(const T* a, const T* b) {
  T mask = 0;
  MICROSCALE_LANES for (int i = 0; i < 32; ++i) mask |=
      F::of(a[i], b[i]) ? static_cast<T>(lane_bit[i]) : 0;
  return static_cast<u32>(mask);
}

// Two's complement from the low bits of a row's lane.
inline s32 s16_of(u32 a) { return static_cast<s32>(a << 16) >> 16; }
inline float f32_of(u32 a) { return std::bit_cast<float>(a); }
inline double f64_of(u64 a) { return std::bit_cast<double>(a); }
inline u32 bits_of(float a) { return std::bit_cast<u32>(a); }
inline u64 bits_of(double a) { return std::bit_cast<u64>(a); }
