// Block scales to FP32 lanes with AVX-512. Included inside a target region.

/// Eight E4M3 bytes, the lower ones, sign bits ignored, as FP32 / 2^8: E4M3 has the exponent field
/// of FP16, 8 lower.
inline __m256 eight_from_e4m3(__m128i bytes) {
  const __m128i words = _mm_and_si128(_mm_cvtepu8_epi16(bytes), _mm_set1_epi16(0x7F));
  const __m128i nan =
      _mm_and_si128(_mm_cmpeq_epi16(words, _mm_set1_epi16(0x7F)), _mm_set1_epi16(0x7FFF));
  return _mm256_cvtph_ps(_mm_or_si128(_mm_slli_epi16(words, 7), nan));
}

/// The same of sixteen.
inline Float sixteen_from_e4m3(const std::uint8_t* p) {
  const __m256i words =
      _mm256_and_si256(_mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
                       _mm256_set1_epi16(0x7F));
  const __mmask16 nan = _mm256_cmpeq_epi16_mask(words, _mm256_set1_epi16(0x7F));
  return _mm512_cvtph_ps(
      _mm256_mask_mov_epi16(_mm256_slli_epi16(words, 7), nan, _mm256_set1_epi16(0x7FFF)));
}

/// FP32 of E8M0 bytes, one in each 32-bit lane: 0 is 2^-127, 255 is NaN.
inline Float from_e8m0(Int bytes) {
  const Int bits = max32(shl32<23>(bytes), set32(0x00400000u));
  return as_float(choose32(equal32(bits, set32(0x7F800000u)), set32(0x7FFFFFFFu), bits));
}

/// Four E8M0 bytes, each in four lanes.
inline Float four_from_e8m0(const std::uint8_t* p) {
  int word;
  __builtin_memcpy(&word, p, sizeof word);
  const Int places = _mm512_set_epi64(
      static_cast<long long>(0x8080800380808003ull), static_cast<long long>(0x8080800380808003ull),
      static_cast<long long>(0x8080800280808002ull), static_cast<long long>(0x8080800280808002ull),
      static_cast<long long>(0x8080800180808001ull), static_cast<long long>(0x8080800180808001ull),
      static_cast<long long>(0x8080800080808000ull), static_cast<long long>(0x8080800080808000ull));
  return from_e8m0(_mm512_shuffle_epi8(_mm512_set1_epi32(word), places));
}

/// The sum of all lanes, halves first.
inline float sum_lanes(Float v) {
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}
