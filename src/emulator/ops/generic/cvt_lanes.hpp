// cvt of pairs to and from the element formats, without branches. The codecs of src/formats are the
// specification (and tests compare every code); here one addition rounds what is subnormal in the
// small format, and integer arithmetic the rest. The first source goes to the high part. op.mode:
// bit 1 .relu; .satfinite is how narrowing always is.

/// The code of an FP32 value, rounded to nearest even, saturated.
template <class Codec>
inline u32 encoded(u32 bits, bool relu) {
  constexpr int cut = 23 - Codec::mantissa_bits;
  constexpr float smallest = Codec::decode(1 << Codec::mantissa_bits);  // normal number
  constexpr u32 rebias = ((std::bit_cast<u32>(smallest) >> 23) - 1) << Codec::mantissa_bits;
  constexpr float magic =
      smallest * static_cast<float>(1u << cut);  // whose last bit is the subnormal step
  const u32 magnitude = bits & 0x7fffffffu;
  const bool nan = magnitude > 0x7f800000u;
  const bool cleared = relu && (bits >> 31) && !nan;
  const u32 normal =
      ((magnitude + ((1u << (cut - 1)) - 1) + ((magnitude >> cut) & 1)) >> cut) - rebias;
  const u32 tiny = bits_of(f32_of(magnitude) + magic) - std::bit_cast<u32>(magic);
  u32 code = magnitude < std::bit_cast<u32>(smallest) ? tiny : normal;
  code = code > Codec::max_code ? Codec::max_code : code;
  code |= (bits >> 31) ? static_cast<u32>(Codec::sign_bit) : 0u;
  code = nan ? static_cast<u32>(Codec::nan_code) : code;
  return cleared ? 0 : code;
}

/// A code is `Bits` apart from its neighbour: 4 for E2M1, 8 for all others.
template <class Codec, int Bits>
Step narrow_f32(const Op& op, Warp& warp, u32 lanes) {
  const u32* a = lanes_of<u32>(warp, op.a);
  const u32* b = lanes_of<u32>(warp, op.b);
  const bool relu = op.mode & 2;
  alignas(64) u32 r[32];
  MICROSCALE_LANES for (int i = 0; i < 32; ++i) r[i] =
      encoded<Codec>(a[i], relu) << Bits | encoded<Codec>(b[i], relu);
  keep(lanes_of<u32>(warp, op.d), r, lanes);
  return Step::next;
}
template <class Codec, int Bits>
Step narrow_f16x2(const Op& op, Warp& warp, u32 lanes) {
  const u32* a = lanes_of<u32>(warp, op.a);
  const bool relu = op.mode & 2;
  alignas(64) u32 r[32];
  MICROSCALE_LANES for (int i = 0; i < 32; ++i) r[i] =
      encoded<Codec>(bits_of(from_f16(a[i] >> 16)), relu) << Bits |
      encoded<Codec>(bits_of(from_f16(a[i] & 0xffffu)), relu);
  keep(lanes_of<u32>(warp, op.d), r, lanes);
  return Step::next;
}

template <class Codec>
struct HalfOfCode {
  u16 bits[256] = {};
  constexpr HalfOfCode() {
    for (int code = 0; code < 256; ++code)
      bits[code] = float_to_f16(Codec::decode(static_cast<u8>(code & (Codec::code_count - 1))));
  }
};
template <class Codec, int Bits>
Step widen_to_f16x2(const Op& op, Warp& warp, u32 lanes) {
  static constexpr HalfOfCode<Codec> half{};
  const u32* a = lanes_of<u32>(warp, op.a);
  constexpr u32 mask = (1u << Bits) - 1;
  alignas(64) u32 r[32];
  for (int i = 0; i < 32; ++i) {
    u32 high = half.bits[a[i] >> Bits & mask], low = half.bits[a[i] & mask];
    if (op.mode & 2) {
      high = (high & 0x8000u) && (high & 0x7fffu) <= 0x7c00u ? 0 : high;
      low = (low & 0x8000u) && (low & 0x7fffu) <= 0x7c00u ? 0 : low;
    }
    r[i] = high << 16 | low;
  }
  keep(lanes_of<u32>(warp, op.d), r, lanes);
  return Step::next;
}

#define MICROSCALE_SMALL(name, Codec, bits)                  \
  {"small." name ".f32", narrow_f32<Codec, bits>},           \
      {"small." name ".f16x2", narrow_f16x2<Codec, bits>}, { \
    "small.f16x2." name, widen_to_f16x2<Codec, bits>         \
  }

Family cvt_lanes_family() {
  static constexpr HandlerEntry entries[] = {
      MICROSCALE_SMALL("e2m1x2", E2M1, 4), MICROSCALE_SMALL("e4m3x2", E4M3, 8),
      MICROSCALE_SMALL("e5m2x2", E5M2, 8), MICROSCALE_SMALL("e2m3x2", E2M3, 8),
      MICROSCALE_SMALL("e3m2x2", E3M2, 8),
  };
  return entries;
}
#undef MICROSCALE_SMALL
