// The online softmax of 128 keys, and its probabilities as left operands of tile products. Included
// inside a target region, after attention_softmax.hpp of generic/ and attention_rows.hpp.
//
// Lanes of a vector are 16 rows and one key (Rows = 16), or 4 rows and four keys after each other
// (Rows = 4, one query of a few heads). Either way a row's sums have the same order.
//
// A weight is 2^((score - reference) * step). A row's reference is its largest score when it was
// last moved, which is as soon as a block has a weight above 2^8: what was summed is then
// multiplied by a power of two or less, and hardly ever after a row's first block.

inline constexpr float largest_weight_log2 = 8;
inline constexpr double log2_of_e = 1.4426950408889634;

/// What turns products of a block's keys into scores, and weights into probabilities.
struct BlockFactors {
  float k[block_keys], v[block_keys];  // of each key; used where they differ
  float softcap = 0;
  float unit = 1;       // of all scores, beside k
  float step = 1;       // of all scores, to base 2
  bool plain = false;   // scores are the products as they are; k, unit and softcap are not used
  bool same_v = false;  // v is not used
};

/// Up to 16 rows that are computed together. Of rows that do not exist nothing is used.
struct alignas(64) RowGroup {
  float shift[16] = {};                       // of a row's scores
  std::int32_t begin[16] = {}, end[16] = {};  // the keys of the block that a row sees
  float reference[16], alpha[16] = {};        // alpha: of the last move
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

/// 2^t within 2^-22, 1 for 0; 0 for -infinity, NaN for NaN.
inline Float exp2_of(Float t) {
  const Float f = _mm512_reduce_ps(t, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
  Float p = set_float(0x1.e97556p-10f);
  p = fma(p, f, set_float(0x1.277852p-7f));
  p = fma(p, f, set_float(0x1.c91ce8p-5f));
  p = fma(p, f, set_float(0x1.ebdb56p-3f));
  p = fma(p, f, set_float(0x1.62e4bap-1f));
  p = fma(p, f, set_float(1.0f));
  return _mm512_scalef_ps(p, t);
}

/// Scores in place of products where they are not plain, -infinity where they are not seen:
/// s[Rows * key + row].
template <int Rows>
inline void score_keys(const RowGroup& group, const BlockFactors& factors, float* s) {
  constexpr int keys = 16 / Rows;
  const Float unit = set_float(factors.unit), shift = of_rows<Rows>(group.shift);
  const Int begin = of_rows<Rows>(group.begin), end = of_rows<Rows>(group.end);
  Int key = Rows == 16 ? zero() : _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
  for (int i = 0; i < block_keys / keys; ++i) {
    Float x = load_float(s + i * 16);
    if (!factors.plain) x = fma(mul(x, unit), of_keys<Rows>(factors.k + i * keys), shift);
    if (factors.softcap > 0)
      x = mul(set_float(factors.softcap), tanh_of(div(x, set_float(factors.softcap))));
    if (!group.all_seen) {
      const Mask seen = _mm512_mask_cmpgt_epi32_mask(_mm512_cmple_epi32_mask(begin, key), end, key);
      x = choose(seen, x, minus_infinity());
      key = add32(key, set32(keys));
    }
    store_float(s + i * 16, x);
  }
}

/// Two vectors of numbers as pairs of the nearest BF16 (halves away from zero).
inline Int to_pairs(Float a, Float b) {
  const Int half = set32(0x8000u);
  return _mm512_mask_mov_epi16(shr32<16>(add32(as_int(a), half)), 0xAAAAAAAAu,
                               add32(as_int(b), half));
}

/// Pairs of 32 keys, lanes as `Rows` says, to one tile: a row of it is a row's 16 pairs.
template <int Rows>
inline void store_probabilities(Int* pairs, std::uint8_t* tile) {
  if constexpr (Rows == 16) {
    transpose16(pairs);
    MICROSCALE_UNROLL
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

/// A group's softmax over one block.
template <int Rows>
class BlockSoftmax {
 public:
  /// Finds the scores and moves references. True if what was summed must be multiplied by
  /// group.alpha; the sum of weights is by then.
  bool begin(const BlockFactors& factors, float* s, RowGroup& group) {
    factors_ = &factors;
    scores_ = s;
    if (!factors.plain || !group.all_seen) score_keys<Rows>(group, factors, s);
    constexpr int vectors = block_keys * Rows / 16;
    Float most[4];
    MICROSCALE_UNROLL
    for (Float& m : most) m = minus_infinity();
    for (int i = 0; i < vectors; i += 4) MICROSCALE_UNROLL
    for (int j = 0; j < 4; ++j)
      most[j] = max(load_float(s + (i + j) * 16), most[j]);  // NaN: what was
    return move(most, group);
  }

  /// The probabilities of keys [32 i, 32 i + 32), times the factors of v, as a tile. Calls
  /// work.some() four times: what can run beside it.
  template <class Work>
  void weigh(int i, std::uint8_t* tile, Work& work) {
    constexpr int together = Rows == 16 ? 4 : 1;  // vectors of four keys
    Int pairs[4 * together];
    MICROSCALE_UNROLL
    for (int w = 0; w < 4; ++w) {
      MICROSCALE_UNROLL
      for (int j = 0; j < together; ++j) {
        const int first = i * 32 + w * 8 + j, second = first + 4;
        Float a = weight(first), b = weight(second);
        sum_[j] = add(add(sum_[j], a), b);
        if (!factors_->same_v) {
          a = mul(a, of_keys<Rows>(factors_->v + first));
          b = mul(b, of_keys<Rows>(factors_->v + second));
        }
        pairs[w * together + j] = to_pairs(a, b);
      }
      work.some();
    }
    store_probabilities<Rows>(pairs, tile);
  }

  void end(RowGroup& group) {
    alignas(64) float totals[16];
    store_float(totals, fold_keys<Rows>(sum_[0], sum_[1], sum_[2], sum_[3], add));
    for (int r = 0; r < Rows; ++r) group.sum[r] += static_cast<double>(totals[r]);
  }

 private:
  Float weight(int key) const {
    return exp2_of(mul(sub(load_float(scores_ + key * Rows), origin_), step_));
  }

  bool move(Float* most, RowGroup& group) {
    const Float each = max(max(most[0], most[1]), max(most[2], most[3])),
                largest = fold_keys<Rows>(each, each, each, each, max);
    const Float before = of_rows<Rows>(group.reference);
    step_ = set_float(factors_->step);
    const Mask higher = _mm512_cmp_ps_mask(mul(sub(largest, before), step_),
                                           set_float(largest_weight_log2), _CMP_GT_OQ);
    const Float reference = choose(higher, largest, before);
    origin_ = choose(_mm512_cmp_ps_mask(reference, minus_infinity(), _CMP_EQ_OQ), as_float(zero()),
                     reference);
    MICROSCALE_UNROLL
    for (Float& sum : sum_) sum = as_float(zero());
    if (higher == 0) return false;
    alignas(64) float alphas[16], references[16];
    store_float(alphas, choose(higher, exp2_of(mul(sub(before, origin_), step_)), set_float(1.0f)));
    store_float(references, reference);
    for (int r = 0; r < Rows; ++r) {
      group.sum[r] *= static_cast<double>(alphas[r]);
      group.alpha[r] = alphas[r];
      group.reference[r] = references[r];
    }
    return true;
  }

  const BlockFactors* factors_;
  const float* scores_;
  Float origin_, step_, sum_[4];
};
