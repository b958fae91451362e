// FP16 and BF16 lanes to and from FP32 without branches, so that loops over them become vectors.
// The same values as src/formats/half.hpp, whose functions are the specification.

inline float from_f16(u32 h) {
  const u32 magnitude = (h & 0x7fffu) << 13;
  const u32 finite = bits_of(f32_of(magnitude) * 0x1p112f);  // exact, subnormals too
  const u32 bits = magnitude >= 0x0f800000u ? magnitude | 0x7f800000u : finite;
  return f32_of(bits | ((h & 0x8000u) << 16));
}
inline u32 to_f16(float value) {
  const u32 bits = bits_of(value);
  const u32 magnitude = bits & 0x7fffffffu;
  const u32 normal = ((magnitude + 0xfffu + ((magnitude >> 13) & 1)) >> 13) - (112u << 10);
  const u32 tiny = bits_of(f32_of(magnitude) + 0.5f) - 0x3f000000u;  // the addition rounds at 2^-24
  u32 r = magnitude < 0x38800000u ? tiny : normal;
  r = magnitude >= 0x477ff000u ? 0x7c00u : r;
  r |= (bits >> 16) & 0x8000u;
  return magnitude > 0x7f800000u ? 0x7fffu : r;
}
inline float from_bf16(u32 h) { return f32_of(h << 16); }
inline u32 to_bf16(float value) {
  const u32 bits = bits_of(value);
  const u32 r = (bits + 0x7fffu + ((bits >> 16) & 1)) >> 16;
  return (bits & 0x7fffffffu) > 0x7f800000u ? 0x7fffu : r;
}

/// 1 if a result has a rounding error, 0 if it is exact, infinite or NaN. Numbers as wide as the
/// doubles, so that loops become vectors.
inline u64 is_error(double error) {
  return (error < 0 ? u64{1} : u64{0}) | (error > 0 ? u64{1} : u64{0});
}
/// `sum`, whose rounding error has the sign of `error`, as the neighbour with an odd last bit
/// unless it is exact: rounding that again to fewer than 51 bits gives the same as rounding once.
inline double make_odd(double sum, double error) {
  const u64 bits = bits_of(sum);
  const u64 step = 1 - ((bits_of(error) ^ bits) >> 63) * 2;  // away from zero if the signs agree
  const u64 finite = std::fabs(sum) < HUGE_VAL ? u64{1} : u64{0};
  return f64_of(bits + (step & (0 - (is_error(error) & finite & ~bits))));
}
/// a * b + c for values of at most 24 bits, odd in its last bit unless exact.
inline double fma_odd(double a, double b, double c) {
  const double product = a * b;
  const double sum = product + c;
  const double part = sum - product;
  const double error = (product - (sum - part)) + (c - part);
  return make_odd(sum, error);
}
/// The same for a double that becomes a float; one beyond the largest becomes the largest, which is
/// odd.
inline float float_odd(double value) {
  const float nearest = static_cast<float>(value);
  const double error = value - static_cast<double>(nearest);
  const u32 bits = bits_of(nearest);
  const u32 step = 1 - (static_cast<u32>(bits_of(error) >> 63) ^ (bits >> 31)) * 2;
  return f32_of(bits + (step & (0 - (static_cast<u32>(is_error(error)) & ~bits))));
}

struct Half {
  static float load(u32 bits) { return from_f16(bits); }
  static u32 store(float value) { return to_f16(value); }
  static constexpr u32 infinity = 0x7c00, largest = 0x7bff, smallest_normal = 0x0400;
};
struct Brain {
  static float load(u32 bits) { return from_bf16(bits); }
  static u32 store(float value) { return to_bf16(value); }
  static constexpr u32 infinity = 0x7f80, largest = 0x7f7f, smallest_normal = 0x0080;
};
