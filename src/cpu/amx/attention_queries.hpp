// The rows of q as right operands of tile products: the exact FP32 numbers in up to three terms of
// BF16. Included inside a target region, after attention_products.hpp.

/// A row of q as FP32, `d` elements in order. Returns the bits that are set in any of them.
inline Int load_query(const double* q, std::int64_t d, float* x) {
  Int bits = zero();
  for (std::int64_t i = 0; i < d; i += lanes) {
    const __m256 a = _mm512_cvtpd_ps(_mm512_loadu_pd(q + i)),
                 b = _mm512_cvtpd_ps(_mm512_loadu_pd(q + i + 8));
    const Float v = _mm512_insertf32x8(_mm512_castps256_ps512(a), b, 1);
    store_float(x + i, v);
    bits = or_(bits, as_int(v));
  }
  return bits;
}

/// 32 numbers to BF16, nearest below in magnitude; x becomes what is left. NaN and infinity stay,
/// and leave nothing.
inline Int take_term(float* x) {
  Int words[2];
  for (int i = 0; i < 2; ++i) {
    const Int bits = load(x + i * lanes);
    const Mask nan = unordered(as_float(bits)),
               special =
                   _mm512_cmpeq_epi32_mask(and_(bits, set32(0x7F800000u)), set32(0x7F800000u));
    const Int term = choose32(nan, set32(0x7FFF0000u), and_(bits, set32(0xFFFF0000u)));
    store_float(x + i * lanes,
                choose(special, as_float(zero()), sub(as_float(bits), as_float(term))));
    words[i] = shr32<16>(term);
  }
  return in_order(pack32_unsigned(words[0], words[1]));
}

/// The tiles of all groups, [group][term][step], and the groups at the beginning of a tile of
/// attention. Returns the number of terms, as few as hold every element.
template <int Rows>
int load_queries(const AttentionTile& tile, const KeySide& side, float* x, std::uint8_t* queries,
                 RowGroup* groups) {
  const std::int64_t steps = tile.d / 32, count = (tile.rows + Rows - 1) / Rows;
  Int bits = zero();
  for (std::int64_t r = 0; r < tile.rows; ++r)
    bits = or_(bits, load_query(tile.q + r * tile.d, tile.d, x + r * tile.d));
  const int terms = _mm512_test_epi32_mask(bits, set32(0xFF)) != 0     ? 3
                    : _mm512_test_epi32_mask(bits, set32(0xFFFF)) != 0 ? 2
                                                                       : 1;
  alignas(64) std::uint16_t places[32];
  for (std::int64_t l = 0; l < 32; ++l)
    places[l] = static_cast<std::uint16_t>(side.key_element(0, l));
  const Int order = load(places);
  for (std::int64_t g = 0; g < count; ++g) {
    RowGroup& group = groups[g] = RowGroup{};
    for (float& reference : group.reference) reference = -__builtin_inff();
    const std::int64_t left = tile.rows - g * Rows, rows = left < Rows ? left : Rows;
    for (std::int64_t r = 0; r < rows; ++r)
      group.shift[r] = static_cast<float>(tile.row[g * Rows + r].shift);
    std::uint8_t* output = queries + g * query_terms * steps * 64 * Rows;
    for (int t = 0; t < terms; ++t)
      for (std::int64_t s = 0; s < steps; ++s) {
        Int v[16];
        for (std::int64_t r = 0; r < 16; ++r)
          v[r] = r < rows ? _mm512_permutexvar_epi16(
                                order, take_term(x + (g * Rows + r) * tile.d + s * 32))
                          : zero();
        transpose16(v);
        for (int j = 0; j < 16; ++j, output += 4 * Rows) {
          if constexpr (Rows == 16)
            store(output, v[j]);
          else
            _mm_storeu_si128(reinterpret_cast<__m128i*>(output), _mm512_castsi512_si128(v[j]));
        }
      }
  }
  return terms;
}
