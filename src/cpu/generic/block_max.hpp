// Largest magnitude of each of 8 blocks at once, as bit patterns, without a horizontal reduction
// per block: the 8 vectors are transposed while they shrink. Included inside a target region
// (cpu/target_region.hpp).

/// 16-bit lane i of each 128 bits: the largest of v[i]'s lanes in these 128 bits.
inline Int largest_of_each(const Int* v) {
  Int a[4], b[2];
  MICROSCALE_UNROLL
  for (int i = 0; i < 4; ++i)
    a[i] = max16(low16(v[2 * i], v[2 * i + 1]), high16(v[2 * i], v[2 * i + 1]));
  MICROSCALE_UNROLL
  for (int i = 0; i < 2; ++i)
    b[i] = max16(low32(a[2 * i], a[2 * i + 1]), high32(a[2 * i], a[2 * i + 1]));
  return max16(low64(b[0], b[1]), high64(b[0], b[1]));
}

/// Of 8 blocks of 32 16-bit elements in a row.
inline __m128i block_max_of_32(const std::uint16_t* x) {
  const Int mask = set16(0x7FFF);
  Int v[8];
  MICROSCALE_UNROLL
  for (int i = 0; i < 8; ++i) {
    v[i] = and_(load(x + i * 32), mask);
    if constexpr (lanes == 8) v[i] = max16(v[i], and_(load(x + i * 32 + 16), mask));
  }
  return fold_max16(largest_of_each(v));
}

/// Of `lanes` blocks of 16 16-bit elements in a row, as 32-bit lanes.
inline Int block_max_of_16(const std::uint16_t* x) {
  const Int mask = set16(0x7FFF);
  Int v[8];
  MICROSCALE_UNROLL
  for (int i = 0; i < 8; ++i) v[i] = and_(load(x + i * 2 * lanes), mask);
  return fold_halves16(largest_of_each(v));
}

/// Of 8 blocks of 16 FP32 in a row, as 32-bit lanes. 256 bits whatever the instruction set.
inline __m256i block_max_of_16_f32(const float* x) {
  const __m256i mask = _mm256_set1_epi32(0x7FFFFFFF);
  __m256i v[8], a[4], b[2];
  MICROSCALE_UNROLL
  for (int i = 0; i < 8; ++i)
    v[i] = _mm256_max_epu32(_mm256_and_si256(load256(x + i * 16), mask),
                            _mm256_and_si256(load256(x + i * 16 + 8), mask));
  MICROSCALE_UNROLL
  for (int i = 0; i < 4; ++i)
    a[i] = _mm256_max_epu32(_mm256_unpacklo_epi32(v[2 * i], v[2 * i + 1]),
                            _mm256_unpackhi_epi32(v[2 * i], v[2 * i + 1]));
  MICROSCALE_UNROLL
  for (int i = 0; i < 2; ++i)
    b[i] = _mm256_max_epu32(_mm256_unpacklo_epi64(a[2 * i], a[2 * i + 1]),
                            _mm256_unpackhi_epi64(a[2 * i], a[2 * i + 1]));
  return _mm256_max_epu32(_mm256_permute2x128_si256(b[0], b[1], 0x20),
                          _mm256_permute2x128_si256(b[0], b[1], 0x31));
}
