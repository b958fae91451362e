// The online softmax of 128 keys, and its probabilities as left operands of tile products. Included
// inside a target region, after attention_softmax.hpp of generic/ and attention_rows.hpp.
//
// Lanes of a vector are 16 rows and one key (Rows = 16), or 4 rows and four keys after each other
// (Rows = 4, one query of a few heads). Either way a row's sums have the same order.

inline constexpr int probability_terms = 2;  // of BF16: within 2^-17

/// What turns products of a block's keys into scores and weights; NVFP4's 2^112 is inside.
struct BlockFactors {
  float k[block_keys], v[block_keys];
  float softcap = 0;
};

/// Up to 16 rows that are computed together. Of rows that do not exist nothing is used.
struct alignas(64) RowGroup {
  float factor[16] = {}, shift[16] = {};      // of a row's products, of its scores
  std::int32_t begin[16] = {}, end[16] = {};  // the keys of the block that a row sees
  float largest[16], alpha[16] = {};
  double sum[16] = {};
  bool all_seen = false;  // every row sees every key of the block
};

/// One number a key, or a row, in all its lanes.
template <int Rows>
inline Float of_keys(const float* p) {
  if constexpr (Rows == 16) return set_float(*p);
  return _mm512_permutexvar_ps(_mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3),
                               _mm512_castps128_ps512(_mm_loadu_ps(p)));
}
template <int Rows>
inline Float of_rows(const float* p) {
  return Rows == 16 ? load_float(p) : _mm512_broadcast_f32x4(_mm_load_ps(p));
}
template <int Rows>
inline Int of_rows(const std::int32_t* p) {
  return Rows == 16 ? load(p)
                    : _mm512_broadcast_i32x4(_mm_load_si128(reinterpret_cast<const __m128i*>(p)));
}

/// The largest of all keys, or their sum, in every lane of a row; `a` to `d`: keys 0 to 3 of four.
template <int Rows, class Function>
inline Float fold_keys(Float a, Float b, Float c, Float d, Function function) {
  if constexpr (Rows == 16) return function(function(a, c), function(b, d));
  const Float twice = function(a, _mm512_shuffle_f32x4(a, a, 0x4E));
  return function(twice, _mm512_shuffle_f32x4(twice, twice, 0xB1));
}

/// Scores in place of products: s[Rows * key + row]. Returns the largest, NaN left out.
template <int Rows>
inline Float score_keys(const RowGroup& group, const BlockFactors& factors, float* s) {
  constexpr int keys = 16 / Rows, vectors = block_keys / keys;
  const Float factor = of_rows<Rows>(group.factor), shift = of_rows<Rows>(group.shift);
  const Int begin = of_rows<Rows>(group.begin), end = of_rows<Rows>(group.end);
  Int key = Rows == 16 ? zero() : _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
  Float most = minus_infinity();
  for (int i = 0; i < vectors; ++i) {
    Float x = fma(mul(load_float(s + i * 16), factor), of_keys<Rows>(factors.k + i * keys), shift);
    if (factors.softcap > 0)
      x = mul(set_float(factors.softcap), tanh_of(div(x, set_float(factors.softcap))));
    if (!group.all_seen) {
      const Mask seen = _mm512_mask_cmpgt_epi32_mask(_mm512_cmple_epi32_mask(begin, key), end, key);
      x = choose(seen, x, minus_infinity());
      key = add32(key, set32(keys));
    }
    store_float(s + i * 16, x);
    most = max(x, most);  // NaN: what was
  }
  return fold_keys<Rows>(most, most, most, most, max);
}

/// Two vectors of numbers as pairs of the nearest BF16; they become what is left.
inline Int split_pair(Float& a, Float& b) {
  const Int upper = set32(0xFFFF0000u), half = set32(0x8000u);
  const Int x = and_(add32(as_int(a), half), upper), y = and_(add32(as_int(b), half), upper);
  a = sub(a, as_float(x));
  b = sub(b, as_float(y));
  return or_(shr32<16>(x), y);
}

/// Pairs of 32 keys, lanes as `Rows` says, to one tile: a row of it is a row's 16 pairs.
template <int Rows>
inline void store_probabilities(Int* pairs, std::uint8_t* tile) {
  if constexpr (Rows == 16) {
    transpose16(pairs);
    for (int r = 0; r < 16; ++r) store(tile + r * 64, pairs[r]);
  } else {
    const Int by_row = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    Int p[4];
    for (int i = 0; i < 4; ++i) p[i] = _mm512_permutexvar_epi32(by_row, pairs[i]);
    const Int a = _mm512_shuffle_i32x4(p[0], p[1], 0x44),
              b = _mm512_shuffle_i32x4(p[2], p[3], 0x44),
              c = _mm512_shuffle_i32x4(p[0], p[1], 0xEE),
              d = _mm512_shuffle_i32x4(p[2], p[3], 0xEE);
    store(tile, _mm512_shuffle_i32x4(a, b, 0x88));
    store(tile + 64, _mm512_shuffle_i32x4(a, b, 0xDD));
    store(tile + 128, _mm512_shuffle_i32x4(c, d, 0x88));
    store(tile + 192, _mm512_shuffle_i32x4(c, d, 0xDD));
  }
}

/// A group's products become tiles of probabilities, times the factors of v: 32 keys of one term
/// each, the terms of the first 32 keys first. Leaves in group.alpha what the output so far is
/// multiplied by.
template <int Rows>
void softmax_group(const BlockFactors& factors, float* s, RowGroup& group, std::uint8_t* tiles) {
  constexpr int keys = 16 / Rows, together = Rows == 16 ? 4 : 1;  // vectors of four keys
  const Float before = of_rows<Rows>(group.largest),
              largest = max(score_keys<Rows>(group, factors, s), before);
  const Float origin =
      choose(_mm512_cmp_ps_mask(largest, minus_infinity(), _CMP_EQ_OQ), as_float(zero()), largest);
  Float sum[together];
  for (int i = 0; i < together; ++i) sum[i] = as_float(zero());
  for (int half = 0; half < block_keys / 32; ++half) {
    Int pairs[probability_terms][4 * together];
    for (int w = 0; w < 4; ++w) {
      for (int i = 0; i < together; ++i) {
        const int first = half * 32 + w * 8 + i, second = first + 4;
        Float a = exp_of(sub(load_float(s + first * Rows), origin)),
              b = exp_of(sub(load_float(s + second * Rows), origin));
        sum[i] = add(add(sum[i], a), b);
        a = mul(a, of_keys<Rows>(factors.v + first));
        b = mul(b, of_keys<Rows>(factors.v + second));
        for (int t = 0; t < probability_terms; ++t) pairs[t][w * together + i] = split_pair(a, b);
      }
    }
    for (int t = 0; t < probability_terms; ++t, tiles += Rows * 64)
      store_probabilities<Rows>(pairs[t], tiles);
  }
  static_assert(keys * together == 4, "four keys at a time");
  const Float total =
      fold_keys<Rows>(sum[0], sum[1 % together], sum[2 % together], sum[3 % together], add);
  const Float alpha = exp_of(sub(before, origin));
  alignas(64) float totals[16], alphas[16], most[16];
  store_float(totals, total);
  store_float(alphas, alpha);
  store_float(most, largest);
  for (int r = 0; r < Rows; ++r) {
    group.sum[r] = group.sum[r] * static_cast<double>(alphas[r]) + static_cast<double>(totals[r]);
    group.alpha[r] = alphas[r];
    group.largest[r] = most[r];
  }
}
