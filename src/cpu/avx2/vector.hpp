// AVX2's half of the vocabulary that src/cpu/generic is written in: 256-bit vectors, 8 lanes of 32
// bits. "In order" means element i of memory in lane i; packs work within 128 bits, as the
// instructions do.
#pragma once

#include <cstdint>

#include "cpu/target_region.hpp"
#include "microscale/format.hpp"

MICROSCALE_AVX2_BEGIN

using Int = __m256i;
using Float = __m256;
using Mask = __m256;  // all ones or zeros per 32-bit lane
inline constexpr int lanes = 8;
inline constexpr int vector_bytes = 32;

// Memory.
inline Int load(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
inline void store(void* p, Int v) { _mm256_storeu_si256(static_cast<__m256i*>(p), v); }
inline void stream(void* p, Int v) { _mm256_stream_si256(static_cast<__m256i*>(p), v); }
inline Float load_float(const float* p) { return _mm256_loadu_ps(p); }
inline void store_float(float* p, Float v) { _mm256_storeu_ps(p, v); }

// Constants.
inline Int zero() { return _mm256_setzero_si256(); }
inline Int set8(int v) { return _mm256_set1_epi8(static_cast<char>(v)); }
inline Int set16(int v) { return _mm256_set1_epi16(static_cast<short>(v)); }
inline Int set32(std::uint32_t v) { return _mm256_set1_epi32(static_cast<int>(v)); }
inline Float set_float(float v) { return _mm256_set1_ps(v); }
inline Int table16(const std::uint8_t* p) {  // 16 bytes in each 128 bits
  return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}

// Bits.
inline Int and_(Int a, Int b) { return _mm256_and_si256(a, b); }
inline Int or_(Int a, Int b) { return _mm256_or_si256(a, b); }
inline Int xor_(Int a, Int b) { return _mm256_xor_si256(a, b); }

// 8 bits, unsigned.
inline Int add8(Int a, Int b) { return _mm256_add_epi8(a, b); }
inline Int sub8(Int a, Int b) { return _mm256_sub_epi8(a, b); }
inline Int min8(Int a, Int b) { return _mm256_min_epu8(a, b); }
inline Int lookup8(Int table, Int index) { return _mm256_shuffle_epi8(table, index); }
inline bool any_below8(Int a, Int limit) {  // any lane a < limit
  return _mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_max_epu8(a, limit), a)) != -1;
}
/// Lanes of `b` where a < limit, else of `a`; limit <= 127 and a <= 127.
inline Int replace_below8(Int a, Int limit, Int b) {
  return _mm256_blendv_epi8(a, b, _mm256_cmpgt_epi8(limit, a));
}

// 16 bits, unsigned.
inline Int add16(Int a, Int b) { return _mm256_add_epi16(a, b); }
inline Int sub16(Int a, Int b) { return _mm256_sub_epi16(a, b); }
inline Int subs16(Int a, Int b) { return _mm256_subs_epu16(a, b); }
inline Int max16(Int a, Int b) { return _mm256_max_epu16(a, b); }
inline Int greater16(Int a, Int b) { return _mm256_cmpgt_epi16(a, b); }  // -1 or 0; signed
template <int N>
inline Int shr16(Int a) {
  return _mm256_srli_epi16(a, N);
}
template <int N>
inline Int shl16(Int a) {
  return _mm256_slli_epi16(a, N);
}
/// a plus its bit N.
template <int N>
inline Int add_bit16(Int a) {
  return add16(a, and_(shr16<N>(a), set16(1)));
}
inline Int low16(Int a, Int b) { return _mm256_unpacklo_epi16(a, b); }  // interleaved, per 128 bits
inline Int high16(Int a, Int b) { return _mm256_unpackhi_epi16(a, b); }
inline Int low32(Int a, Int b) { return _mm256_unpacklo_epi32(a, b); }
inline Int high32(Int a, Int b) { return _mm256_unpackhi_epi32(a, b); }
inline Int low64(Int a, Int b) { return _mm256_unpacklo_epi64(a, b); }
inline Int high64(Int a, Int b) { return _mm256_unpackhi_epi64(a, b); }
inline __m128i fold_max16(Int a) {  // the largest of all 128-bit parts
  return _mm_max_epu16(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
}
/// The same for vectors of which each 256 bits are a block: 32-bit lanes, one per block.
inline Int fold_halves16(Int a) { return _mm256_cvtepu16_epi32(fold_max16(a)); }
inline Int dot16(Int a, Int b) { return _mm256_madd_epi16(a, b); }  // signed pairs to 32 bits
inline Int dot8(Int a, Int b) { return _mm256_maddubs_epi16(a, b); }
/// The sum of each eight bytes, in 64 bits.
inline Int sum_bytes(Int a) { return _mm256_sad_epu8(a, zero()); }
/// To memory in turns: the first 128 bits of a, those of b, the second ones of a, ...
inline void store_blocks(void* p, Int a, Int b) {
  store(p, _mm256_permute2x128_si256(a, b, 0x20));
  store(static_cast<char*>(p) + vector_bytes, _mm256_permute2x128_si256(a, b, 0x31));
}

// 32 bits.
inline Int add32(Int a, Int b) { return _mm256_add_epi32(a, b); }
inline Int sub32(Int a, Int b) { return _mm256_sub_epi32(a, b); }
inline Int mul32(Int a, Int b) { return _mm256_mullo_epi32(a, b); }  // the lower halves
inline Int max32(Int a, Int b) { return _mm256_max_epu32(a, b); }
inline Int max32_signed(Int a, Int b) { return _mm256_max_epi32(a, b); }
inline Int min32_signed(Int a, Int b) { return _mm256_min_epi32(a, b); }
template <int N>
inline Int shr32(Int a) {
  return _mm256_srli_epi32(a, N);
}
template <int N>
inline Int shl32(Int a) {
  return _mm256_slli_epi32(a, N);
}

// FP32.
inline Float as_float(Int a) { return _mm256_castsi256_ps(a); }
inline Int as_int(Float a) { return _mm256_castps_si256(a); }
inline Float add(Float a, Float b) { return _mm256_add_ps(a, b); }
inline Float sub(Float a, Float b) { return _mm256_sub_ps(a, b); }
inline Float mul(Float a, Float b) { return _mm256_mul_ps(a, b); }
inline Float div(Float a, Float b) { return _mm256_div_ps(a, b); }
inline Float min(Float a, Float b) { return _mm256_min_ps(a, b); }  // a < b ? a : b
inline Float max(Float a, Float b) { return _mm256_max_ps(a, b); }
inline Float fma(Float a, Float b, Float c) { return _mm256_fmadd_ps(a, b, c); }
// Of numbers >= 0, as integers: the ports for integers are free where these are used.
inline Float min_magnitude(Float a, Float b) {
  return as_float(_mm256_min_epi32(as_int(a), as_int(b)));
}
inline Float max_magnitude(Float a, Float b) {
  return as_float(_mm256_max_epi32(as_int(a), as_int(b)));
}
/// y rounded to a multiple of unit / 2^(23 - Exponent); unit is a power of two, y < 2 unit.
template <int Exponent>
inline Float round_at(Float y, Float unit) {
  const Float magic =
      as_float(add32(as_int(unit), set32(static_cast<std::uint32_t>(Exponent) << 23)));
  return sub(add(y, magic), magic);
}
inline Float swap_neighbours(Float a) { return _mm256_permute_ps(a, 0xB1); }
/// Lane l has lane l ^ Distance: 2 and 4, with AVX-512 8.
template <int Distance>
inline Float swap_lanes(Float a) {
  return Distance == 2 ? _mm256_permute_ps(a, 0x4E) : _mm256_permute2f128_ps(a, a, 0x01);
}
/// Each even, each odd lane twice.
inline Float even_lanes(Float a) { return _mm256_moveldup_ps(a); }
inline Float odd_lanes(Float a) { return _mm256_movehdup_ps(a); }
/// Half a vector from memory, each twice.
inline Float load_twice(const float* p) {
  return _mm256_permutevar8x32_ps(_mm256_castps128_ps256(_mm_loadu_ps(p)),
                                  _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3));
}
inline Float and_float(Float a, Float b) { return _mm256_and_ps(a, b); }

inline float max_lanes(Float a) {
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1)),
               two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}
inline Float to_float(Int a) { return _mm256_cvtepi32_ps(a); }
inline Int to_int(Float a) { return _mm256_cvttps_epi32(a); }         // toward zero
inline Int to_nearest_int(Float a) { return _mm256_cvtps_epi32(a); }  // even

// Choices, per 32-bit lane.
inline Mask less(Float a, Float b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
inline Mask not_less(Float a, Float b) { return _mm256_cmp_ps(a, b, _CMP_GE_OQ); }
inline Mask unordered(Float a) { return _mm256_cmp_ps(a, a, _CMP_UNORD_Q); }
inline Mask equal32(Int a, Int b) { return as_float(_mm256_cmpeq_epi32(a, b)); }
inline Mask both(Mask a, Mask b) { return _mm256_and_ps(a, b); }
inline Mask either(Mask a, Mask b) { return _mm256_or_ps(a, b); }
inline Float choose(Mask m, Float yes, Float no) { return _mm256_blendv_ps(no, yes, m); }
inline Int choose32(Mask m, Int yes, Int no) {
  return as_int(_mm256_blendv_ps(as_float(no), as_float(yes), m));
}
inline std::uint32_t bits_of(Mask m) { return static_cast<std::uint32_t>(_mm256_movemask_ps(m)); }

// Packs.
inline Int pack32(Int a, Int b) { return _mm256_packs_epi32(a, b); }
inline Int pack32_unsigned(Int a, Int b) { return _mm256_packus_epi32(a, b); }
inline Int pack16(Int a, Int b) { return _mm256_packus_epi16(a, b); }
inline Int pack16_signed(Int a, Int b) { return _mm256_packs_epi16(a, b); }
/// Brings what one pack of two vectors left in 8-byte pieces in order.
inline Int in_order(Int packed) { return _mm256_permute4x64_epi64(packed, 0xD8); }
/// The same for two packs in a row, in 4-byte pieces.
inline Int in_order_twice(Int packed) {
  return _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}
/// The lowest byte of each 32-bit lane (values < 256) to 8 bytes.
inline void store_low_bytes(void* p, Int v) {
  const Int packed = pack16(pack32_unsigned(v, v), v);
  const Int joined = _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 0, 4, 0, 4, 0, 4));
  _mm_storel_epi64(static_cast<__m128i*>(p), _mm256_castsi256_si128(joined));
}
/// 16-bit lanes from the even and the odd elements, each in 32 bits (even < 2^16).
inline Int interleave(Int even, Int odd) { return _mm256_blend_epi16(even, shl32<16>(odd), 0xAA); }

// Conversions.
inline Float from_f16(const void* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(p)));
}
inline Int to_f16(Float a, Float b) {  // in order
  return _mm256_inserti128_si256(
      _mm256_castsi128_si256(_mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT)),
      _mm256_cvtps_ph(b, _MM_FROUND_TO_NEAREST_INT), 1);
}
inline Int widen16(const void* p) {  // 16-bit lanes to 32 bits
  return _mm256_cvtepu16_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p)));
}
inline Int widen8(const void* p) {  // bytes to 16-bit lanes
  return _mm256_cvtepu8_epi16(_mm_loadu_si128(static_cast<const __m128i*>(p)));
}
inline Int widen8_signed(const void* p) {
  return _mm256_cvtepi8_epi16(_mm_loadu_si128(static_cast<const __m128i*>(p)));
}
inline Int widen8_to_32(const void* p) {  // signed
  return _mm256_cvtepi8_epi32(_mm_loadl_epi64(static_cast<const __m128i*>(p)));
}
/// The upper 16 bits of 32-bit lanes, in order, with their last bit set if any lower bit was.
inline Int upper_sticky(Float a, Float b) {
  const Int low = set32(0xFFFFu), x = as_int(a), y = as_int(b);
  const Int p = or_(x, add32(and_(x, low), low)), q = or_(y, add32(and_(y, low), low));
  return in_order(pack32_unsigned(shr32<16>(p), shr32<16>(q)));
}
/// FP16 in the lower half of each 32-bit lane, as FP32.
inline Float widen_f16(Int a) {
  return _mm256_cvtph_ps(_mm256_castsi256_si128(in_order(pack32_unsigned(a, a))));
}
/// The FP16 numbers in the lower and upper half of a vector, as FP32.
inline Float low_f16(Int a) { return _mm256_cvtph_ps(_mm256_castsi256_si128(a)); }
inline Float high_f16(Int a) { return _mm256_cvtph_ps(_mm256_extracti128_si256(a, 1)); }

/// `a`, with all of `bits` set in the 16-bit lanes where x equals y.
inline Int or_where_equal16(Int a, Int bits, Int x, Int y) {
  return or_(a, and_(bits, _mm256_cmpeq_epi16(x, y)));
}

/// Constants of the blocks that two vectors of `lanes` elements hold: `value` points to one for
/// each block of 16, a vector pair holds one.
template <DType>
inline void spread16(const float* value, Float& a, Float& b) {
  a = b = _mm256_broadcast_ss(value);
}
/// 16-bit constants for vector `i` of a stretch of blocks of 32: half a block is one vector.
inline Int spread32(const std::uint16_t* value, int i) {
  return _mm256_set1_epi16(static_cast<short>(value[i / 2]));
}

/// output[i * lanes + b] = rows[b * stride + i] for `lanes` rows of `lanes` numbers.
inline void transpose(const float* rows, int stride, float* output) {
  Float r[8], t[8];
  MICROSCALE_UNROLL
  for (int i = 0; i < 8; ++i) r[i] = _mm256_loadu_ps(rows + i * stride);
  MICROSCALE_UNROLL
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
  MICROSCALE_UNROLL
  for (int i = 0; i < 8; i += 4) {
    r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
    r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xEE);
    r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xEE);
  }
  MICROSCALE_UNROLL
  for (int i = 0; i < 4; ++i) {
    _mm256_storeu_ps(output + i * 8, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
    _mm256_storeu_ps(output + (i + 4) * 8, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
  }
}

MICROSCALE_AVX2_END
