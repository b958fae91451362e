// The loops of attention_products.hpp. Included inside a target region (cpu/target_region.hpp),
// after vector.hpp and
//   add_dot16(sum, a, b)     sum + the two products of 16-bit integers in each lane

template <int Rows>
void integer_scores(const QueryCodes& q, const KeyCodes& k, float* scores) {
  Float total[2 * Rows];
  MICROSCALE_UNROLL
  for (int i = 0; i < 2 * Rows; ++i) total[i] = as_float(zero());
  const std::int16_t* codes = k.codes;
  const float* scales = k.scales;
  for (int at = 0; at < k.words * 8; scales += 32) {
    Int sum[2 * Rows];
    MICROSCALE_UNROLL
    for (int i = 0; i < 2 * Rows; ++i) sum[i] = zero();
    for (int w = 0; w < k.block_words; ++w, at += 8, codes += 4 * 64) {
      MICROSCALE_UNROLL
      for (int i = 0; i < 4; ++i) {
        const Int first = load(codes + i * 64), second = load(codes + i * 64 + 32);
        MICROSCALE_UNROLL
        for (int r = 0; r < Rows; ++r) {
          std::uint32_t two;
          __builtin_memcpy(&two, q.codes + r * q.stride + at + 2 * i, sizeof two);
          sum[2 * r] = add_dot16(sum[2 * r], first, set32(two));
          sum[2 * r + 1] = add_dot16(sum[2 * r + 1], second, set32(two));
        }
      }
    }
    MICROSCALE_UNROLL
    for (int i = 0; i < 2 * Rows; ++i)
      total[i] = fma(to_float(sum[i]), load_float(scales + i % 2 * lanes), total[i]);
  }
  MICROSCALE_UNROLL
  for (int i = 0; i < 2 * Rows; ++i)
    store_float(scores + i * lanes, mul(total[i], set_float(q.unit[i / 2])));
}

/// Two keys' weights beside each other, in all lanes.
inline Float two_weights(const float* p) {
  double two;
  __builtin_memcpy(&two, p, sizeof two);
  return _mm512_castpd_ps(_mm512_set1_pd(two));
}

/// The scale 2^14 / (a power of two near `largest`) under which every number up to `largest` rounds
/// to less than 2^15; its inverse times unit to `inverse`.
inline Float scale_of_weights(Float largest, float unit, Float& inverse) {
  // What would round up to 2^15 gets the next exponent. Zero gets one that does not overflow.
  const Int exponent = max32_signed(and_(add32(as_int(largest), set32(0x100)), set32(0x7F800000u)),
                                    set32(22u << 23));
  inverse = mul(as_float(sub32(exponent, set32(14u << 23))), set_float(unit));
  return as_float(sub32(set32(268u << 23), exponent));  // 2 * 127 + 14
}

/// Weights of Rows rows, p * scale, to `y`: [row][keys k and k + 1][word: of one key, of the
/// other]; what makes them integers to `factor`, what sums must be multiplied by then to `inverse`.
template <int Rows>
inline void make_weights(const float* p, const float* scales, float unit, float* __restrict y,
                         Float* factor, Float* inverse) {
  Float largest[Rows];
  MICROSCALE_UNROLL
  for (int r = 0; r < Rows; ++r) largest[r] = as_float(zero());
  for (int pair = 0; pair < 16; ++pair) {
    const Float scale = load_float(scales + pair * lanes);
    MICROSCALE_UNROLL
    for (int r = 0; r < Rows; ++r) {
      const Float weights = mul(two_weights(p + r * 32 + pair * 2), scale);
      largest[r] = max(largest[r], weights);
      store_float(y + (r * 16 + pair) * lanes, weights);
    }
  }
  MICROSCALE_UNROLL
  for (int r = 0; r < Rows; ++r)
    factor[r] = scale_of_weights(max(largest[r], swap_neighbours(largest[r])), unit, inverse[r]);
}

/// Vectors [First, First + Count) of 128 elements. The first time weights become integers, both
/// keys' in every lane, in place.
template <int Rows, int First, int Count>
inline void add_values(float* __restrict y, const std::int16_t* __restrict codes,
                       const Float* factor, const Float* inverse, const float* alpha,
                       std::int64_t stride, float* __restrict output) {
  const Int both =
      _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 4, 5, 0, 1, 4, 5, 8, 9, 12, 13, 8, 9, 12, 13));
  const Float rounder = set_float(0x1p23f);
  Int sum[Rows * Count];
  MICROSCALE_UNROLL
  for (int i = 0; i < Rows * Count; ++i) sum[i] = zero();
  for (int pair = 0; pair < 16; ++pair) {
    Int v[Count];
    MICROSCALE_UNROLL
    for (int i = 0; i < Count; ++i) v[i] = load(codes + (pair * 8 + First + i) * 32);
    MICROSCALE_UNROLL
    for (int r = 0; r < Rows; ++r) {
      float* at = y + (r * 16 + pair) * lanes;
      Int weights;
      if constexpr (First == 0) {
        weights = lookup8(as_int(fma(load_float(at), factor[r], rounder)), both);
        if constexpr (Count < 8) store(at, weights);
      } else {
        weights = load(at);
      }
      MICROSCALE_UNROLL
      for (int i = 0; i < Count; ++i)
        sum[r * Count + i] = add_dot16(sum[r * Count + i], v[i], weights);
    }
  }
  MICROSCALE_UNROLL
  for (int r = 0; r < Rows; ++r) {
    const Float old = set_float(alpha[r]);
    MICROSCALE_UNROLL
    for (int i = 0; i < Count; ++i) {
      float* at = output + r * stride + (First + i) * lanes;
      store_float(at, fma(load_float(at), old, mul(to_float(sum[r * Count + i]), inverse[r])));
    }
  }
}

template <int Rows>
void integer_sums(const Weights& w, const ValueCodes& v, float* output) {
  for (std::int64_t e = 0; e < v.stride; e += 128) {
    Float factor[Rows], inverse[Rows];
    make_weights<Rows>(w.p, v.scales + e / 128 * 16 * lanes, v.unit, w.memory, factor, inverse);
    const std::int16_t* codes = v.codes + e / 128 * 16 * 8 * 32;
    constexpr int count = Rows == 4 ? 4 : 8;  // so that registers hold all sums
    add_values<Rows, 0, count>(w.memory, codes, factor, inverse, w.alpha, v.stride, output + e);
    if constexpr (count < 8)
      add_values<Rows, count, count>(w.memory, codes, factor, inverse, w.alpha, v.stride,
                                     output + e);
  }
}

inline constexpr AttentionProducts attention_products{
    .scores = {integer_scores<1>, integer_scores<2>, integer_scores<4>},
    .sums = {integer_sums<1>, integer_sums<2>, integer_sums<4>}};
