// How codes become FP32 vectors with AVX2: the decoders that matrix products (matmul_dot.hpp,
// matmul_outer.hpp) and attention are made with. Included inside a target region
// (cpu/target_region.hpp), after cpu/generic/dense.hpp.

inline float sum_lanes(Float v) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

inline int load_word(const std::uint8_t* p) {
  int word;
  __builtin_memcpy(&word, p, sizeof word);
  return word;
}

/// 64 E2M1 codes. Each nibble looks up the two bytes of its BF16 value, which is the upper half of
/// the FP32 one; unpacking them leaves this order:
///   vector 4 * half + 2 * nibble + parity, lane 4 * q + d:
///   element 32 * q + 16 * half + 4 * d + 2 * parity + nibble
struct Fp4Codes {
  static constexpr int elements = 64, vectors = 8, code_bytes = 32;
  static constexpr int element(int vector, int lane) {
    return 32 * (lane / 4) + 16 * (vector / 4) + 4 * (lane % 4) + 2 * (vector % 2) + vector / 2 % 2;
  }
  struct Codes {
    Int words[4];  // of half 0 and 1, low nibbles and high nibbles
  };
  static Codes load(const std::uint8_t* p) { return looked_up(microscale::avx2::load(p)); }
  static Codes load_part(const std::uint8_t* p, std::int64_t bytes) {
    const Int place = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28),
              inside = _mm256_cmpgt_epi32(set32(static_cast<std::uint32_t>(bytes)), place);
    return looked_up(_mm256_maskload_epi32(reinterpret_cast<const int*>(p), inside));
  }
  static Codes looked_up(Int codes) {
    const Int low_bytes =
        _mm256_setr_epi8(0, 0, -128, -64, 0, 64, -128, -64, 0, 0, -128, -64, 0, 64, -128, -64, 0, 0,
                         -128, -64, 0, 64, -128, -64, 0, 0, -128, -64, 0, 64, -128, -64);
    const Int high_bytes = _mm256_setr_epi8(
        0, 0x3F, 0x3F, 0x3F, 0x40, 0x40, 0x40, 0x40, -128, -65, -65, -65, -64, -64, -64, -64,  //
        0, 0x3F, 0x3F, 0x3F, 0x40, 0x40, 0x40, 0x40, -128, -65, -65, -65, -64, -64, -64, -64);
    const Int mask = set8(15);
    const Int even = and_(codes, mask), odd = and_(shr16<4>(codes), mask);
    const Int a = lookup8(low_bytes, even), b = lookup8(high_bytes, even),
              c = lookup8(low_bytes, odd), d = lookup8(high_bytes, odd);
    return {{_mm256_unpacklo_epi8(a, b), _mm256_unpacklo_epi8(c, d), _mm256_unpackhi_epi8(a, b),
             _mm256_unpackhi_epi8(c, d)}};
  }
  static Float vector(const Codes& w, int i) {
    const Int words = w.words[i / 2];
    return as_float(i % 2 == 0 ? shl32<16>(words) : and_(words, set32(0xFFFF0000u)));
  }
};

/// E4M3 bytes in the lower half, sign bits ignored, as FP32 / 2^8: E4M3 has the exponent field of
/// FP16, 8 lower.
inline Float eight_from_e4m3(__m128i bytes) {
  const __m128i words = _mm_cvtepu8_epi16(_mm_and_si128(bytes, _mm_set1_epi8(0x7F)));
  const __m128i nan =
      _mm_and_si128(_mm_cmpeq_epi16(words, _mm_set1_epi16(0x7F)), _mm_set1_epi16(0x7FFF));
  return _mm256_cvtph_ps(_mm_or_si128(_mm_slli_epi16(words, 7), nan));
}

/// Four scales a step, in the lower half.
struct Nvfp4 : Fp4Codes {
  static constexpr int groups = 2, scale_bytes = 4;
  static constexpr double factor = 256.0;
  using Scales = Float;
  static Scales load_scales(const std::uint8_t* p) {
    return eight_from_e4m3(_mm_cvtsi32_si128(load_word(p)));
  }
  static void load_two_scales(const std::uint8_t* p, Scales (&q)[2]) {
    q[0] = eight_from_e4m3(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
    q[1] = _mm256_permute2f128_ps(q[0], q[0], 0x11);
  }
  static Float scale(Scales q, int group) {  // lanes 0 to 3: block `group`, 4 to 7: block 2 + group
    const Int first = _mm256_setr_epi32(0, 0, 0, 0, 2, 2, 2, 2);
    return _mm256_permutevar8x32_ps(q, group == 0 ? first : add32(first, set32(1)));
  }
};

/// FP32 of E8M0 bytes, one in each 32-bit lane: 0 is 2^-127, 255 is NaN.
inline Float from_e8m0(Int bytes) {
  const Int bits = max32(shl32<23>(bytes), set32(0x00400000u));
  return as_float(or_(bits, _mm256_cmpeq_epi32(bits, set32(0x7F800000u))));
}

struct Mxfp4 : Fp4Codes {
  static constexpr int groups = 1, scale_bytes = 2;
  static constexpr double factor = 1.0;
  using Scales = Float;
  static Scales load_scales(const std::uint8_t* p) {
    return from_e8m0(_mm256_setr_epi32(p[0], p[0], p[0], p[0], p[1], p[1], p[1], p[1]));
  }
  static void load_two_scales(const std::uint8_t* p, Scales (&q)[2]) {
    const Float all = from_e8m0(_mm256_cvtepu8_epi32(_mm_cvtsi32_si128(load_word(p))));
    const Int first = _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1);
    q[0] = _mm256_permutevar8x32_ps(all, first);
    q[1] = _mm256_permutevar8x32_ps(all, add32(first, set32(2)));
  }
  static Float scale(Scales q, int) { return q; }
};

/// 64 E4M3 or E5M2 codes in order, through FP16.
template <bool FiveExponentBits>
struct Mxfp8 {
  static constexpr int elements = 64, vectors = 8, code_bytes = 64, groups = 2, scale_bytes = 2;
  static constexpr double factor = FiveExponentBits ? 1.0 : 256.0;
  static constexpr int element(int vector, int lane) { return vector * lanes + lane; }
  using Codes = const std::uint8_t*;
  using Scales = Float;  // a group's in its lane
  static Codes load(const std::uint8_t* p) { return p; }
  static Scales load_scales(const std::uint8_t* p) {
    return from_e8m0(_mm256_cvtepu8_epi32(_mm_cvtsi32_si128(p[0] | p[1] << 8)));
  }
  static Float vector(Codes p, int i) {  // the compiler does the shared half once
    const Int wide = widen8(p + 16 * (i / 2));
    Int half = shl16<8>(wide);
    if constexpr (!FiveExponentBits) {
      const Int magnitude = and_(wide, set16(0x7F));
      half = or_(shl16<7>(magnitude), and_(half, set16(-0x8000)));
      half = or_where_equal16(half, set16(0x7FFF), magnitude, set16(0x7F));
    }
    return i % 2 == 0 ? low_f16(half) : high_f16(half);
  }
  static Float scale(Scales q, int group) {
    return _mm256_permutevar8x32_ps(q, set32(static_cast<std::uint32_t>(group)));
  }
};
