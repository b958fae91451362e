// 16-entry tables of AVX-512: what each 4-bit code decodes to under one scale. Included inside a
// target region.

template <DType Type>
inline constexpr int table_bytes = Type == DType::f32 ? 64 : 32;

/// `a` and `b` both hold the 16 values.
template <DType Type>
inline void make_table(std::uint8_t* table, Float a, Float b) {
  if constexpr (Type == DType::f32) {
    store(table, as_int(canonical(a)));
  } else {
    Int values;
    put_pair<Type>(&values, a, b, false);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(table), _mm512_castsi512_si256(values));
  }
}

/// 32 codes: 16 by table `first`, 16 by table `second`.
template <DType Type>
inline void decode_fp4(const std::uint8_t* codes, const std::uint8_t* first,
                       const std::uint8_t* second, std::uint8_t* output, bool past_cache) {
  if constexpr (Type == DType::f32) {
    const Int shifts = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16, 20, 24, 28);
    const Int words = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
    for (int i = 0; i < 2; ++i) {  // 16 codes; the permute looks at 4 bits of an index
      const Int both =
          _mm512_castsi128_si512(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes + 8 * i)));
      const Int index = _mm512_srlv_epi32(_mm512_permutexvar_epi32(words, both), shifts);
      put(output + 64 * i, _mm512_permutexvar_epi32(index, load(i == 0 ? first : second)),
          past_cache);
    }
  } else {
    const Int pairs =
        _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(codes)));
    const Int tables =
        _mm512_inserti64x4(_mm512_castsi256_si512(load256(first)), load256(second), 1);
    Int index = and_(or_(pairs, shl32<12>(pairs)), set16(15));
    index = or_(index, _mm512_inserti64x4(zero(), _mm256_set1_epi16(16), 1));
    put(output, _mm512_permutexvar_epi16(index, tables), past_cache);
  }
}
