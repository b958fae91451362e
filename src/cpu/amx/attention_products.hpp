// The tile products of attention. Included inside a target region, after attention_softmax.hpp.

inline constexpr int query_terms = 3;  // of BF16: all 24 bits

template <int Rows>
inline constexpr int sum_rows = Rows == 16 ? 16 : Rows* probability_terms;

/// Tiles 0 and 1: scores, 16 keys by Rows; 2 and 3: sums, rows by 16; 4 and 7: K or V; 5: q; 6:
/// probabilities. With 16 rows all are alike, and 0 to 3 serve either purpose; with 4 the terms of
/// the probabilities are rows of one tile.
template <int Rows>
inline void load_tile_config() {
  struct alignas(64) Config {
    std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
    std::uint16_t row_bytes[16] = {4 * Rows, 4 * Rows, 64, 64, 64, 4 * Rows, 64, 64};
    std::uint8_t rows[16] = {16, 16, sum_rows<Rows>, sum_rows<Rows>, 16, 16, sum_rows<Rows>, 16};
  };
  static constexpr Config config{};
  _tile_loadconfig(&config);
}

/// The compiler must have stored what tiles load, and must not load what tiles have yet to store:
/// the intrinsics do not tell it.
inline void finish_stores() { __atomic_signal_fence(__ATOMIC_SEQ_CST); }

/// Whether any value is infinite or NaN.
inline bool special_values(const std::uint8_t* values, std::int64_t steps) {
  __mmask32 special = 0;
  for (std::int64_t i = 0; i < block_keys * steps; ++i) {
    const Int v = and_(load(values + i * 64), set16(0x7F80));
    special |= _mm512_cmpeq_epi16_mask(v, set16(0x7F80));
  }
  return special != 0;
}

template <int Rows>
struct Products {
  std::int64_t steps;  // of 32 elements of d
  int terms;           // of q

  static constexpr std::int64_t query_bytes = 64 * Rows;
  static constexpr std::int64_t probability_bytes() {
    return block_keys / 32 * probability_terms * Rows * 64;
  }

  /// scores[group][key][row] of all groups, for 32 keys from `first` on.
  void scores(const std::uint8_t* keys, const std::uint8_t* queries, std::int64_t groups,
              std::int64_t first, float* scores) const {
    finish_stores();
    const std::int64_t query = query_terms * steps * query_bytes, group = Rows * block_keys;
    scores += first * Rows;
    std::int64_t g = 0;
    if constexpr (Rows == 16)
      for (; g + 2 <= groups; g += 2)
        score_pair(keys, queries + g * query, query, scores + g * group);
    for (; g < groups; ++g) score_one(keys, queries + g * query, scores + g * group);
    finish_stores();
  }

  /// Of one group, [tile of d][term][row][16].
  std::int64_t sum_floats() const { return 2 * steps * probability_terms * Rows * 16; }

  void sums(const std::uint8_t* probabilities, const std::uint8_t* values, std::int64_t groups,
            float* sums) const {
    finish_stores();
    for (std::int64_t t = 0; t < 2 * steps; t += 2)
      for (std::int64_t g = 0; g < groups; ++g)
        sum_two(probabilities + g * probability_bytes(), values + t * tile_bytes,
                sums + g * sum_floats() + t * tile_floats);
    finish_stores();
  }

  /// The same, of each row with the values it sees alone: the others are zeros.
  void seen_sums(const std::uint8_t* probabilities, const std::uint8_t* values,
                 const RowGroup* groups, std::int64_t rows, std::uint8_t* spare,
                 float* output) const {
    alignas(64) float two[2 * tile_floats];
    for (std::int64_t r = 0; r < rows; ++r) {
      const RowGroup& seen = groups[r / Rows];
      for (std::int64_t pair = 0; pair < block_keys / 2; ++pair) {
        const std::int64_t first = pair / 4 * 8 + pair % 4;
        std::uint32_t mask = 0;
        if (first >= seen.begin[r % Rows] && first < seen.end[r % Rows]) mask |= 0x55555555u;
        if (first + 4 >= seen.begin[r % Rows] && first + 4 < seen.end[r % Rows])
          mask |= 0xAAAAAAAAu;
        const std::int64_t at = pair / 16 * 2 * steps * tile_bytes + pair % 16 * 64;
        for (std::int64_t t = 0; t < 2 * steps; ++t)
          store(spare + at + t * tile_bytes,
                _mm512_maskz_loadu_epi16(mask, values + at + t * tile_bytes));
      }
      for (std::int64_t t = 0; t < 2 * steps; t += 2) {
        finish_stores();
        sum_two(probabilities + r / Rows * probability_bytes(), spare + t * tile_bytes, two);
        finish_stores();
        for (std::int64_t i = 0; i < 2 * probability_terms; ++i) {
          const std::int64_t at = (i * Rows + r % Rows) * 16;
          store_float(output + r / Rows * sum_floats() + t * tile_floats + at,
                      load_float(two + at));
        }
      }
    }
  }

  /// output[tile of d][row][16] = output * alpha[row] + sums, of one group.
  void add_sums(const float* sums, const float* alpha, float* output) const {
    for (std::int64_t r = 0; r < Rows; ++r) {
      const Float factor = set_float(alpha[r]);
      for (std::int64_t t = 0; t < 2 * steps; ++t) {
        const float* from = sums + t * tile_floats + r * 16;
        float* at = output + (t * Rows + r) * 16;
        const Float sum = add(load_float(from), load_float(from + Rows * 16));
        store_float(at, fma(load_float(at), factor, sum));
      }
    }
  }

 private:
  void score_one(const std::uint8_t* k, const std::uint8_t* q, float* s) const {
    _tile_zero(0);
    _tile_zero(1);
    for (int t = 0; t < terms; ++t)
      for (std::int64_t i = 0; i < steps; ++i, q += query_bytes) {
        _tile_loadd(5, q, 4 * Rows);
        _tile_loadd(4, k + i * tile_bytes, 64);
        _tile_dpbf16ps(0, 4, 5);
        _tile_loadd(7, k + (steps + i) * tile_bytes, 64);
        _tile_dpbf16ps(1, 7, 5);
      }
    _tile_stored(0, s, 4 * Rows);
    _tile_stored(1, s + 16 * Rows, 4 * Rows);
  }

  void score_pair(const std::uint8_t* k, const std::uint8_t* q, std::int64_t query,
                  float* s) const {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int t = 0; t < terms; ++t)
      for (std::int64_t i = 0; i < steps; ++i, q += query_bytes) {
        _tile_loadd(5, q, 64);
        _tile_loadd(4, k + i * tile_bytes, 64);
        _tile_dpbf16ps(0, 4, 5);
        _tile_loadd(7, k + (steps + i) * tile_bytes, 64);
        _tile_dpbf16ps(1, 7, 5);
        _tile_loadd(6, q + query, 64);
        _tile_dpbf16ps(2, 4, 6);
        _tile_dpbf16ps(3, 7, 6);
      }
    float* const other = s + 16 * block_keys;
    _tile_stored(0, s, 64);
    _tile_stored(1, s + 256, 64);
    _tile_stored(2, other, 64);
    _tile_stored(3, other + 256, 64);
  }

  /// Two tiles of d.
  void sum_two(const std::uint8_t* p, const std::uint8_t* v, float* s) const {
    static_assert(probability_terms == 2);
    constexpr std::int64_t half = 2 * tile_bytes;  // of all values of a step
    if constexpr (Rows == 16) {
      _tile_zero(0);
      _tile_zero(1);
    }
    _tile_zero(2);
    _tile_zero(3);
    for (std::int64_t i = 0; i < block_keys / 32; ++i, v += half * steps, p += 2 * Rows * 64) {
      _tile_loadd(7, v, 64);
      _tile_loadd(6, p, 64);
      _tile_dpbf16ps(2, 6, 7);
      _tile_loadd(4, v + tile_bytes, 64);
      _tile_dpbf16ps(3, 6, 4);
      if constexpr (Rows == 16) {
        _tile_loadd(5, p + tile_bytes, 64);
        _tile_dpbf16ps(0, 5, 7);
        _tile_dpbf16ps(1, 5, 4);
      }
    }
    _tile_stored(2, s, 64);
    _tile_stored(3, s + tile_floats, 64);
    if constexpr (Rows == 16) {
      _tile_stored(0, s + 256, 64);
      _tile_stored(1, s + tile_floats + 256, 64);
    }
  }

  static constexpr std::int64_t tile_floats = probability_terms * Rows * 16;
};
