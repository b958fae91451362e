// The E8M0 byte of 8 blocks from their largest magnitudes: each rule of formats/e8m0.hpp is the
// exponent of (amax + something below one binade), minus an offset. Works on the upper 16 bits of
// FP32, rounded to odd, which keeps every comparison those rules make. Included inside a target
// region (cpu/target_region.hpp).

/// Element facts as the vector code needs them.
struct Fp4 {
  static constexpr int mantissa_bits = 1, emax = 2, bias = 1, max_code = 7, sign_bit = 8,
                       largest_fraction = 0x40;  // of 128
  static constexpr float largest = 6.0f, smallest_normal = 1.0f;
};
struct Fp6E2M3 {
  static constexpr int mantissa_bits = 3, emax = 2, bias = 1, max_code = 0x1F, sign_bit = 0x20,
                       largest_fraction = 0x70;
  static constexpr float largest = 7.5f, smallest_normal = 1.0f, subnormal_magic = 0x1p20f;
};
struct Fp6E3M2 {
  static constexpr int mantissa_bits = 2, emax = 4, bias = 3, max_code = 0x1F, sign_bit = 0x20,
                       largest_fraction = 0x60;
  static constexpr float largest = 28.0f, smallest_normal = 0.25f, subnormal_magic = 0x1p19f;
};
struct Fp8E4M3 {
  static constexpr int mantissa_bits = 3, emax = 8, bias = 7, max_code = 0x7E, sign_bit = 0x80,
                       largest_fraction = 0x60;
  static constexpr float largest = 448.0f, smallest_normal = 0x1p-6f, subnormal_magic = 0x1p14f;
};
struct Fp8E5M2 {
  static constexpr int mantissa_bits = 2, emax = 15, bias = 15, max_code = 0x7B, sign_bit = 0x80,
                       largest_fraction = 0x60;
  static constexpr float largest = 57344.0f, smallest_normal = 0x1p-14f, subnormal_magic = 0x1p7f;
};

struct E8M0Rule {
  short add;        // to the pattern before its exponent is taken
  short offset;     // subtracted from the exponent
  short zero_byte;  // of a block of zeros
  bool search;
};

template <class Element>
inline E8M0Rule e8m0_rule(ScaleRule rule) {
  constexpr short half = 1 << (6 - Element::mantissa_bits);
  switch (rule) {
    case ScaleRule::ceil:
      return {127, Element::emax, 0, false};
    case ScaleRule::rceil:
      return {127 - Element::largest_fraction, Element::emax, 0, false};
    case ScaleRule::even:
      return {half, Element::emax, 0, false};
    case ScaleRule::even_down:
      return {half - 1, Element::emax, 0, false};
    case ScaleRule::even_1bit:
      return {32, Element::emax, 0, false};
    case ScaleRule::amax_ceil:
      return {127, 0, 127, false};
    case ScaleRule::amax_floor:
      return {0, 0, 0, false};
    case ScaleRule::search:
      return {0, Element::emax, 0, true};
    default:
      return {0, Element::emax, 0, false};
  }
}

/// Smallest magnitude pattern the 16-bit arithmetic takes (2^-95): below it a scale comes near its
/// lower end. Such blocks, and those with NaN or infinity, are the reference's.
inline constexpr short smallest_pattern = 0x1000;

inline __m128i e8m0_bytes(__m128i amax, const E8M0Rule& rule) {
  __m128i byte = _mm_srli_epi16(_mm_add_epi16(amax, _mm_set1_epi16(rule.add)), 7);
  byte = _mm_subs_epu16(byte, _mm_set1_epi16(rule.offset));
  byte = _mm_min_epu16(byte, _mm_set1_epi16(254));
  const __m128i is_zero = _mm_cmpeq_epi16(amax, _mm_setzero_si128());
  return _mm_blendv_epi8(byte, _mm_set1_epi16(rule.zero_byte), is_zero);
}

/// Bit i: block i is the reference's.
inline std::uint32_t needs_reference(__m128i amax) {
  const __m128i small = _mm_cmpgt_epi16(_mm_set1_epi16(smallest_pattern), amax);
  const __m128i special = _mm_cmpgt_epi16(amax, _mm_set1_epi16(0x7F7F));
  const __m128i bad =
      _mm_andnot_si128(_mm_cmpeq_epi16(amax, _mm_setzero_si128()), _mm_or_si128(small, special));
  return static_cast<std::uint32_t>(_mm_movemask_epi8(_mm_packs_epi16(bad, _mm_setzero_si128())));
}
