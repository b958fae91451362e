// The rows of q as right operands of tile products: the exact FP32 numbers in up to three terms of
// BF16. Included inside a target region, after attention_products.hpp.

/// Beside NVFP4 keys, decoded to 2^-112 of their values, a row of q is brought to magnitudes below
/// 2^56 by a power of two: all products are then far from both ends of FP32.
inline constexpr int query_exponent = 56;

/// x as FP32 in natural order, zeros behind d; the largest finite magnitude.
inline float load_query(const double* q, std::int64_t d, std::int64_t width, float* x) {
  Float most = as_float(zero());
  for (std::int64_t i = 0; i < width; i += lanes) {
    Float v = as_float(zero());
    if (i < d)  // d is a multiple of 32
      v = _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(_mm512_loadu_pd(q + i))),
                             _mm512_cvtpd_ps(_mm512_loadu_pd(q + i + 8)), 1);
    store_float(x + i, v);
    const Float magnitude = as_float(and_(as_int(v), set32(0x7FFFFFFFu)));
    const Mask finite = less(magnitude, set_float(__builtin_inff()));
    most = choose(finite, max(magnitude, most), most);
  }
  return _mm512_reduce_max_ps(most);
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
/// attention. Returns the number of terms.
template <int Rows>
int load_queries(const AttentionTile& tile, const KeySide& side, double unit, std::uint8_t* queries,
                 RowGroup* groups) {
  const std::int64_t width = padded(tile.d), steps = width / 32,
                     count = (tile.rows + Rows - 1) / Rows;
  int terms = 1;  // all are made; those that are zero for every row are not multiplied
  for (std::int64_t g = 0; g < count; ++g) {
    RowGroup& group = groups[g] = RowGroup{};
    for (float& largest : group.largest) largest = -__builtin_inff();
    alignas(64) float x[Rows][256];
    for (std::int64_t r = 0; r < Rows; ++r) {
      const std::int64_t row = g * Rows + r;
      if (row >= tile.rows) {
        for (std::int64_t i = 0; i < width; ++i) x[r][i] = 0;
        continue;
      }
      const float most = load_query(tile.q + row * tile.d, tile.d, width, x[r]);
      int exponent = 0, up = 0;
      if (side.low() && most > 0) __builtin_frexpf(most, &exponent);
      if (side.low()) up = query_exponent - exponent;  // in two steps, as one might not be a number
      const Float first = set_float(__builtin_ldexpf(1.0f, up / 2)),
                  second = set_float(__builtin_ldexpf(1.0f, up - up / 2));
      for (std::int64_t i = 0; i < width; i += lanes)
        store_float(x[r] + i, mul(mul(load_float(x[r] + i), first), second));
      group.factor[r] = static_cast<float>(__builtin_ldexp(unit, exponent));
      group.shift[r] = static_cast<float>(tile.row[row].shift);
    }
    std::uint8_t* output = queries + g * query_terms * steps * 64 * Rows;
    for (int t = 0; t < query_terms; ++t) {
      __mmask32 some = 0;
      for (std::int64_t s = 0; s < steps; s += group_vectors) {
        Int v[group_vectors][16];
        for (std::int64_t r = 0; r < Rows; ++r) {
          Int w[group_vectors];
          for (int i = 0; i < group_vectors; ++i) {
            w[i] = take_term(x[r] + (s + i) * 32);
            some |= _mm512_test_epi16_mask(w[i], set16(0x7FFF));
          }
          if (side.fp4()) to_group_order(w);
          for (int i = 0; i < group_vectors; ++i) v[i][r] = w[i];
        }
        for (int i = 0; i < group_vectors; ++i) {
          for (int r = Rows; r < 16; ++r) v[i][r] = zero();
          transpose16(v[i]);
          for (int j = 0; j < 16; ++j, output += 4 * Rows) {
            if constexpr (Rows == 16)
              store(output, v[i][j]);
            else
              _mm_storeu_si128(reinterpret_cast<__m128i*>(output), _mm512_castsi512_si128(v[i][j]));
          }
        }
      }
      if (some != 0 && t + 1 > terms) terms = t + 1;
    }
  }
  return terms;
}
