// How codes become FP32 vectors with AVX-512: the decoders that matrix products (matmul_dot.hpp,
// matmul_outer.hpp) and attention are made with. Included inside a target region
// (cpu/target_region.hpp), after cpu/generic/dense.hpp.

#include "cpu/avx512/matmul_scales.hpp"

/// Count of them, up to four.
template <int Count>
inline __m128i few_bytes(const std::uint8_t* p) {
  int word = 0;
  __builtin_memcpy(&word, p, Count);
  return _mm_cvtsi32_si128(word);
}

/// The values of the lowest four bits of each lane, whatever the others are.
inline Float e2m1_values(Int nibbles) {
  const Float values = _mm512_setr_ps(0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f, -0.0f, -0.5f,
                                      -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f);
  return _mm512_permutexvar_ps(nibbles, values);
}

/// 128 E2M1 codes: lane l of vector i is nibble i of the l-th 32-bit word.
struct Fp4Codes {
  static constexpr int elements = 128, vectors = 8, code_bytes = 64;
  static constexpr int element(int vector, int lane) { return 8 * lane + vector; }
  using Codes = Int;
  static Codes load(const std::uint8_t* p) { return microscale::avx512::load(p); }
  static Codes load_part(const std::uint8_t* p, std::int64_t bytes) {
    return _mm512_maskz_loadu_epi8((std::uint64_t{1} << bytes) - 1, p);
  }
  static Float vector(Codes w, int i) { return e2m1_values(_mm512_srli_epi32(w, shift_of(i))); }

  /// From byte 0, 1, 2 and 3 on, so that half of the shifts are loads.
  struct Inside {
    Int from[4];
  };
  static Inside load_inside(const std::uint8_t* p) {
    using microscale::avx512::load;
    return {{load(p), load(p + 1), load(p + 2), load(p + 3)}};
  }
  static Float vector(const Inside& w, int i) {
    return e2m1_values(_mm512_srli_epi32(w.from[i / 2], shift_of(i % 2)));
  }

 private:
  static unsigned shift_of(int nibble) { return static_cast<unsigned>(4 * nibble); }
};

/// Lane l of a vector belongs to block l / 2.
struct Nvfp4 : Fp4Codes {
  static constexpr int groups = 1, scale_bytes = 8;
  static constexpr double factor = 256.0;
  using Scales = Float;
  static Scales load_scales(const std::uint8_t* p) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
    return _mm512_permutexvar_ps(twice(), _mm512_castps256_ps512(eight_from_e4m3(bytes)));
  }
  static void load_two_scales(const std::uint8_t* p, Scales (&q)[2]) {
    const Float all = sixteen_from_e4m3(p);
    q[0] = _mm512_permutexvar_ps(twice(), all);
    q[1] = _mm512_permutexvar_ps(add32(twice(), set32(8)), all);
  }
  static Float scale(Scales q, int) { return q; }

 private:
  static Int twice() { return _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7); }
};

/// Lane l of a vector belongs to block l / 4.
struct Mxfp4 : Fp4Codes {
  static constexpr int groups = 1, scale_bytes = 4;
  static constexpr double factor = 1.0;
  using Scales = Float;
  static Scales load_scales(const std::uint8_t* p) { return four_from_e8m0(p); }
  static void load_two_scales(const std::uint8_t* p, Scales (&q)[2]) {
    const Float all =
        from_e8m0(_mm512_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
    const Int four = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    q[0] = _mm512_permutexvar_ps(four, all);
    q[1] = _mm512_permutexvar_ps(add32(four, set32(4)), all);
  }
  static Float scale(Scales q, int) { return q; }
};

/// E4M3 or E5M2 codes in order, through FP16.
template <bool FiveExponentBits, int Elements = 128>
struct Mxfp8 {
  static constexpr int elements = Elements, vectors = Elements / lanes, code_bytes = Elements,
                       groups = Elements / 32, scale_bytes = groups;
  static constexpr double factor = FiveExponentBits ? 1.0 : 256.0;
  static constexpr int element(int vector, int lane) { return vector * lanes + lane; }
  using Codes = const std::uint8_t*;
  using Scales = Float;  // a group's in its lane
  static Codes load(const std::uint8_t* p) { return p; }
  static Scales load_scales(const std::uint8_t* p) {
    return from_e8m0(_mm512_cvtepu8_epi32(few_bytes<scale_bytes>(p)));
  }
  static void load_two_scales(const std::uint8_t* p, Scales (&q)[2]) requires(Elements == 128) {
    q[0] = from_e8m0(_mm512_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
    q[1] = _mm512_shuffle_f32x4(q[0], q[0], 1);
  }
  /// Two vectors share the work on 32 codes: the compiler sees that it is the same.
  static Float vector(Codes p, int i) {
    const Int half = to_f16(p + i / 2 * 32);
    return i % 2 == 0 ? low_f16(half) : high_f16(half);
  }
  /// E5M2 is the upper half of an FP16 number, E4M3 one with its exponent 8 less.
  static Int to_f16(const std::uint8_t* p) {
    const Int wide = widen8(p);
    if constexpr (FiveExponentBits) return shl16<8>(wide);
    const Int magnitude = and_(wide, set16(0x7F));
    const __mmask32 nan = _mm512_cmpeq_epi16_mask(magnitude, set16(0x7F));
    const Int bits = _mm512_mask_mov_epi16(shl16<7>(magnitude), nan, set16(0x7FFF));
    return _mm512_ternarylogic_epi32(bits, shl16<8>(wide), set16(-0x8000), 0xF8);  // a | b & c
  }
  static Float scale(Scales q, int group) {
    return _mm512_permutexvar_ps(set32(static_cast<std::uint32_t>(group)), q);
  }
};

// Of half as long steps, for rows that fill no longer ones.

/// 64 E2M1 codes: lane l of vector i is nibble 2 i + l / 8 of the 32-bit word l % 8.
struct ShortFp4Codes {
  static constexpr int elements = 64, vectors = 4, code_bytes = 32;
  static constexpr int element(int vector, int lane) {
    return 8 * (lane % 8) + 2 * vector + lane / 8;
  }
  using Codes = Int;
  static Codes load(const std::uint8_t* p) { return both_halves(load256(p)); }
  static Codes load_part(const std::uint8_t* p, std::int64_t bytes) {
    return both_halves(_mm256_maskz_loadu_epi8((__mmask32{1} << bytes) - 1, p));
  }
  static Float vector(Codes w, int i) {
    return e2m1_values(_mm512_srli_epi32(w, static_cast<unsigned>(8 * i)));
  }

 private:
  static Codes both_halves(__m256i words) {
    return _mm512_inserti64x4(_mm512_castsi256_si512(words), _mm256_srli_epi32(words, 4), 1);
  }
};

/// Lane l of a vector belongs to block l % 8 / 2.
struct ShortNvfp4 : ShortFp4Codes {
  static constexpr int groups = 1, scale_bytes = 4;
  static constexpr double factor = 256.0;
  using Scales = Float;
  static Scales load_scales(const std::uint8_t* p) {
    return _mm512_permutexvar_ps(
        _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 0, 0, 1, 1, 2, 2, 3, 3),
        _mm512_castps256_ps512(eight_from_e4m3(few_bytes<scale_bytes>(p))));
  }
  static Float scale(Scales q, int) { return q; }
};

/// Lane l of a vector belongs to block l % 8 / 4.
struct ShortMxfp4 : ShortFp4Codes {
  static constexpr int groups = 1, scale_bytes = 2;
  static constexpr double factor = 1.0;
  using Scales = Float;
  static Scales load_scales(const std::uint8_t* p) {
    return _mm512_permutexvar_ps(_mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1),
                                 from_e8m0(_mm512_cvtepu8_epi32(few_bytes<scale_bytes>(p))));
  }
  static Float scale(Scales q, int) { return q; }
};
