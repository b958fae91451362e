// AVX-512's half of the vocabulary that src/cpu/generic is written in: 512-bit vectors, 16 lanes of
// 32 bits (F, BW, VL and DQ). Each function means what its namesake in cpu/avx2/vector.hpp does.
#pragma once

#include <cstdint>

#include "cpu/target_region.hpp"
#include "microscale/format.hpp"

MICROSCALE_AVX512_BEGIN

using Int = __m512i;
using Float = __m512;
using Mask = __mmask16;
inline constexpr int lanes = 16;
inline constexpr int vector_bytes = 64;

// Memory.
inline Int load(const void* p) { return _mm512_loadu_si512(p); }
inline void store(void* p, Int v) { _mm512_storeu_si512(p, v); }
inline void stream(void* p, Int v) { _mm512_stream_si512(static_cast<__m512i*>(p), v); }
inline Float load_float(const float* p) { return _mm512_loadu_ps(p); }
inline void store_float(float* p, Float v) { _mm512_storeu_ps(p, v); }

// Constants.
inline Int zero() { return _mm512_setzero_si512(); }
inline Int set8(int v) { return _mm512_set1_epi8(static_cast<char>(v)); }
inline Int set16(int v) { return _mm512_set1_epi16(static_cast<short>(v)); }
inline Int set32(std::uint32_t v) { return _mm512_set1_epi32(static_cast<int>(v)); }
inline Float set_float(float v) { return _mm512_set1_ps(v); }
inline Int table16(const std::uint8_t* p) {  // 16 bytes in each 128 bits
  return _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}

// Bits.
inline Int and_(Int a, Int b) { return _mm512_and_si512(a, b); }
inline Int or_(Int a, Int b) { return _mm512_or_si512(a, b); }
inline Int xor_(Int a, Int b) { return _mm512_xor_si512(a, b); }

// 8 bits, unsigned.
inline Int add8(Int a, Int b) { return _mm512_add_epi8(a, b); }
inline Int sub8(Int a, Int b) { return _mm512_sub_epi8(a, b); }
inline Int min8(Int a, Int b) { return _mm512_min_epu8(a, b); }
inline Int lookup8(Int table, Int index) { return _mm512_shuffle_epi8(table, index); }
inline bool any_below8(Int a, Int limit) { return _mm512_cmplt_epu8_mask(a, limit) != 0; }
inline Int replace_below8(Int a, Int limit, Int b) {
  return _mm512_mask_mov_epi8(a, _mm512_cmplt_epu8_mask(a, limit), b);
}

// 16 bits, unsigned.
inline Int add16(Int a, Int b) { return _mm512_add_epi16(a, b); }
inline Int sub16(Int a, Int b) { return _mm512_sub_epi16(a, b); }
inline Int subs16(Int a, Int b) { return _mm512_subs_epu16(a, b); }
inline Int max16(Int a, Int b) { return _mm512_max_epu16(a, b); }
template <int N>
inline Int shr16(Int a) {
  return _mm512_srli_epi16(a, N);
}
template <int N>
inline Int shl16(Int a) {
  return _mm512_slli_epi16(a, N);
}
template <int N>
inline Int add_bit16(Int a) {
  return _mm512_mask_add_epi16(a, _mm512_test_epi16_mask(a, set16(1 << N)), a, set16(1));
}
inline Int low16(Int a, Int b) { return _mm512_unpacklo_epi16(a, b); }
inline Int high16(Int a, Int b) { return _mm512_unpackhi_epi16(a, b); }
inline Int low32(Int a, Int b) { return _mm512_unpacklo_epi32(a, b); }
inline Int high32(Int a, Int b) { return _mm512_unpackhi_epi32(a, b); }
inline Int low64(Int a, Int b) { return _mm512_unpacklo_epi64(a, b); }
inline Int high64(Int a, Int b) { return _mm512_unpackhi_epi64(a, b); }
inline __m128i fold_max16(Int a) {
  const __m256i half = _mm256_max_epu16(_mm512_castsi512_si256(a), _mm512_extracti64x4_epi64(a, 1));
  return _mm_max_epu16(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
}
inline Int fold_halves16(Int a) {
  const Int pairs =
      max16(a, _mm512_shuffle_i64x2(a, a, 0xB1));  // even blocks in part 0, odd ones in 2
  const __m128i even = _mm512_castsi512_si128(pairs), odd = _mm512_extracti32x4_epi32(pairs, 2);
  return _mm512_cvtepu16_epi32(
      _mm256_set_m128i(_mm_unpackhi_epi16(even, odd), _mm_unpacklo_epi16(even, odd)));
}
inline Int dot16(Int a, Int b) { return _mm512_madd_epi16(a, b); }
inline Int dot8(Int a, Int b) { return _mm512_maddubs_epi16(a, b); }
inline Int sum_bytes(Int a) { return _mm512_sad_epu8(a, zero()); }
inline void store_blocks(void* p, Int a, Int b) {
  const Int first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
  store(p, _mm512_permutex2var_epi64(a, first, b));
  store(static_cast<char*>(p) + vector_bytes,
        _mm512_permutex2var_epi64(a, _mm512_add_epi64(first, _mm512_set1_epi64(4)), b));
}

// 32 bits.
inline Int add32(Int a, Int b) { return _mm512_add_epi32(a, b); }
inline Int sub32(Int a, Int b) { return _mm512_sub_epi32(a, b); }
inline Int mul32(Int a, Int b) { return _mm512_mullo_epi32(a, b); }
inline Int max32(Int a, Int b) { return _mm512_max_epu32(a, b); }
inline Int max32_signed(Int a, Int b) { return _mm512_max_epi32(a, b); }
inline Int min32_signed(Int a, Int b) { return _mm512_min_epi32(a, b); }
template <int N>
inline Int shr32(Int a) {
  return _mm512_srli_epi32(a, N);
}
template <int N>
inline Int shl32(Int a) {
  return _mm512_slli_epi32(a, N);
}

// FP32.
inline Float as_float(Int a) { return _mm512_castsi512_ps(a); }
inline Int as_int(Float a) { return _mm512_castps_si512(a); }
inline Float add(Float a, Float b) { return _mm512_add_ps(a, b); }
inline Float sub(Float a, Float b) { return _mm512_sub_ps(a, b); }
inline Float mul(Float a, Float b) { return _mm512_mul_ps(a, b); }
inline Float div(Float a, Float b) { return _mm512_div_ps(a, b); }
inline Float min(Float a, Float b) { return _mm512_min_ps(a, b); }
inline Float max(Float a, Float b) { return _mm512_max_ps(a, b); }
inline Float fma(Float a, Float b, Float c) { return _mm512_fmadd_ps(a, b, c); }
inline Float min_magnitude(Float a, Float b) { return _mm512_min_ps(a, b); }
inline Float max_magnitude(Float a, Float b) { return _mm512_max_ps(a, b); }
template <int Exponent>
inline Float round_at(Float y, Float unit) {
  const Float magic = set_float(static_cast<float>(1 << Exponent));
  return _mm512_fnmadd_ps(unit, magic, fma(unit, magic, y));
}
inline Float swap_neighbours(Float a) { return _mm512_permute_ps(a, 0xB1); }
template <int Distance>
inline Float swap_lanes(Float a) {
  return Distance == 2   ? _mm512_permute_ps(a, 0x4E)
         : Distance == 4 ? _mm512_shuffle_f32x4(a, a, 0xB1)
                         : _mm512_shuffle_f32x4(a, a, 0x4E);
}
inline Float even_lanes(Float a) { return _mm512_moveldup_ps(a); }
inline Float odd_lanes(Float a) { return _mm512_movehdup_ps(a); }
inline Float load_twice(const float* p) {
  return _mm512_permutexvar_ps(_mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7),
                               _mm512_castps256_ps512(_mm256_loadu_ps(p)));
}
inline Float and_float(Float a, Float b) { return _mm512_and_ps(a, b); }

inline float max_lanes(Float a) { return _mm512_reduce_max_ps(a); }
inline Float to_float(Int a) { return _mm512_cvtepi32_ps(a); }
inline Int to_int(Float a) { return _mm512_cvttps_epi32(a); }
inline Int to_nearest_int(Float a) { return _mm512_cvtps_epi32(a); }

// Choices, per 32-bit lane.
inline Mask less(Float a, Float b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
inline Mask unordered(Float a) { return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q); }
inline Mask equal32(Int a, Int b) { return _mm512_cmpeq_epi32_mask(a, b); }
inline Mask both(Mask a, Mask b) { return static_cast<Mask>(a & b); }
inline Mask either(Mask a, Mask b) { return static_cast<Mask>(a | b); }
inline Float choose(Mask m, Float yes, Float no) { return _mm512_mask_blend_ps(m, no, yes); }
inline Int choose32(Mask m, Int yes, Int no) { return _mm512_mask_blend_epi32(m, no, yes); }
inline std::uint32_t bits_of(Mask m) { return m; }

// Packs.
inline Int pack32(Int a, Int b) { return _mm512_packs_epi32(a, b); }
inline Int pack32_unsigned(Int a, Int b) { return _mm512_packus_epi32(a, b); }
inline Int pack16(Int a, Int b) { return _mm512_packus_epi16(a, b); }
inline Int pack16_signed(Int a, Int b) { return _mm512_packs_epi16(a, b); }
inline Int in_order(Int packed) {
  return _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), packed);
}
inline Int in_order_twice(Int packed) {
  return _mm512_permutexvar_epi32(
      _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), packed);
}
inline void store_low_bytes(void* p, Int v) {
  _mm_storeu_si128(static_cast<__m128i*>(p), _mm512_cvtepi32_epi8(v));
}
inline Int interleave(Int even, Int odd) {
  return _mm512_mask_blend_epi16(0xAAAAAAAAu, even, shl32<16>(odd));
}

// Conversions.
inline Float from_f16(const void* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(p)));
}
inline Int to_f16(Float a, Float b) {
  return _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT)),
                            _mm512_cvtps_ph(b, _MM_FROUND_TO_NEAREST_INT), 1);
}
inline Int widen16(const void* p) {
  return _mm512_cvtepu16_epi32(_mm256_loadu_si256(static_cast<const __m256i*>(p)));
}
inline Int widen8(const void* p) {
  return _mm512_cvtepu8_epi16(_mm256_loadu_si256(static_cast<const __m256i*>(p)));
}
inline Int widen8_signed(const void* p) {
  return _mm512_cvtepi8_epi16(_mm256_loadu_si256(static_cast<const __m256i*>(p)));
}
inline Int widen8_to_32(const void* p) {
  return _mm512_cvtepi8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p)));
}
inline Int upper_sticky(Float a, Float b) {
  const Int low = set32(0xFFFFu), odd = set32(0x10000u);
  const Int x =
      _mm512_mask_or_epi32(as_int(a), _mm512_test_epi32_mask(as_int(a), low), as_int(a), odd);
  const Int y =
      _mm512_mask_or_epi32(as_int(b), _mm512_test_epi32_mask(as_int(b), low), as_int(b), odd);
  const Int upper = _mm512_set_epi32(  // the odd 16-bit lanes of x, then of y
      0x003F003D, 0x003B0039, 0x00370035, 0x00330031, 0x002F002D, 0x002B0029, 0x00270025,
      0x00230021, 0x001F001D, 0x001B0019, 0x00170015, 0x00130011, 0x000F000D, 0x000B0009,
      0x00070005, 0x00030001);
  return _mm512_permutex2var_epi16(x, upper, y);
}
inline Float widen_f16(Int a) { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(a)); }
inline Float low_f16(Int a) { return _mm512_cvtph_ps(_mm512_castsi512_si256(a)); }
inline Float high_f16(Int a) { return _mm512_cvtph_ps(_mm512_extracti64x4_epi64(a, 1)); }
inline Int or_where_equal16(Int a, Int bits, Int x, Int y) {
  return _mm512_mask_mov_epi16(a, _mm512_cmpeq_epi16_mask(x, y), or_(a, bits));
}

/// A vector pair holds two blocks of 16: the even and odd elements of both, or one after the other.
template <DType Type>
inline void spread16(const float* value, Float& a, Float& b) {
  if constexpr (Type == DType::bf16) {
    a = b = _mm512_insertf32x8(_mm512_set1_ps(value[0]), _mm256_broadcast_ss(value + 1), 1);
  } else {
    a = _mm512_set1_ps(value[0]);
    b = _mm512_set1_ps(value[1]);
  }
}
/// A vector is a block of 32.
inline Int spread32(const std::uint16_t* value, int i) {
  return _mm512_set1_epi16(static_cast<short>(value[i]));
}

/// r[i] becomes lane i of all of them.
[[gnu::always_inline]] inline void transpose(Float (&r)[16]) {
  Float t[16];
  MICROSCALE_UNROLL
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
  }
  MICROSCALE_UNROLL
  for (int i = 0; i < 16; i += 4) {  // r[i + c]: columns 4 * (128-bit part) + c of rows i ... i + 3
    r[i] = _mm512_shuffle_ps(t[i], t[i + 2], 0x44);
    r[i + 1] = _mm512_shuffle_ps(t[i], t[i + 2], 0xEE);
    r[i + 2] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    r[i + 3] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0xEE);
  }
  MICROSCALE_UNROLL
  for (int c = 0; c < 4; ++c) {
    t[c] = _mm512_shuffle_f32x4(r[c], r[4 + c], 0x88);
    t[4 + c] = _mm512_shuffle_f32x4(r[c], r[4 + c], 0xDD);
    t[8 + c] = _mm512_shuffle_f32x4(r[8 + c], r[12 + c], 0x88);
    t[12 + c] = _mm512_shuffle_f32x4(r[8 + c], r[12 + c], 0xDD);
  }
  MICROSCALE_UNROLL
  for (int c = 0; c < 4; ++c) {
    r[c] = _mm512_shuffle_f32x4(t[c], t[8 + c], 0x88);
    r[8 + c] = _mm512_shuffle_f32x4(t[c], t[8 + c], 0xDD);
    r[4 + c] = _mm512_shuffle_f32x4(t[4 + c], t[12 + c], 0x88);
    r[12 + c] = _mm512_shuffle_f32x4(t[4 + c], t[12 + c], 0xDD);
  }
}

inline void transpose(const float* rows, int stride, float* output) {
  Float r[16];
  MICROSCALE_UNROLL
  for (int i = 0; i < 16; ++i) r[i] = load_float(rows + i * stride);
  transpose(r);
  MICROSCALE_UNROLL
  for (int i = 0; i < 16; ++i) store_float(output + i * 16, r[i]);
}

MICROSCALE_AVX512_END
