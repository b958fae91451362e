// 16-entry tables of AVX2: what each 4-bit code decodes to under one scale. Included inside a
// target region.

/// Bytes of one table: for 16-bit values all low bytes, then all high bytes.
template <DType Type>
inline constexpr int table_bytes = Type == DType::f32 ? 64 : 32;

/// Two vectors of the 16 values, as put_pair takes them.
template <DType Type>
inline void make_table(std::uint8_t* table, Float a, Float b) {
  if constexpr (Type == DType::f32) {
    put_pair<DType::f32>(table, a, b, false);
  } else {
    Int values;
    put_pair<Type>(&values, a, b, false);
    const Int split = _mm256_shuffle_epi8(
        values, _mm256_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15,  //
                                 0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15));
    store(table, in_order(split));
  }
}

inline Int join128(const std::uint8_t* low, const std::uint8_t* high) {
  return _mm256_inserti128_si256(
      _mm256_castsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(low))),
      _mm_loadu_si128(reinterpret_cast<const __m128i*>(high)), 1);
}

/// 32 codes: 16 by table `first`, 16 by table `second`.
template <DType Type>
inline void decode_fp4(const std::uint8_t* codes, const std::uint8_t* first,
                       const std::uint8_t* second, std::uint8_t* output, bool past_cache) {
  if constexpr (Type == DType::f32) {
    const Int shifts = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
    MICROSCALE_UNROLL
    for (int i = 0; i < 4; ++i) {  // 8 codes; the permute looks at 3 bits of an index
      const std::uint8_t* table = i < 2 ? first : second;
      int word;
      __builtin_memcpy(&word, codes + 4 * i, sizeof(word));
      const Int index = _mm256_srlv_epi32(_mm256_set1_epi32(word), shifts);
      const Float positive = _mm256_permutevar8x32_ps(as_float(load(table)), index);
      const Float negative = _mm256_permutevar8x32_ps(as_float(load(table + 32)), index);
      put(output + 32 * i, as_int(choose(as_float(shl32<28>(index)), negative, positive)),
          past_cache);
    }
  } else {
    const Int pairs = widen8(codes);
    const Int index = and_(or_(pairs, shl16<4>(pairs)), set8(15));
    const Int low = lookup8(join128(first, second), index);
    const Int high = lookup8(join128(first + 16, second + 16), index);
    const Int a = _mm256_unpacklo_epi8(low, high), b = _mm256_unpackhi_epi8(low, high);
    put(output, _mm256_permute2x128_si256(a, b, 0x20), past_cache);
    put(output + 32, _mm256_permute2x128_si256(a, b, 0x31), past_cache);
  }
}
