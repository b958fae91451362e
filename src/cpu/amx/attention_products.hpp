// The tile products of attention. Included inside a target region, after attention_softmax.hpp.

inline constexpr int query_terms = 3;  // of BF16: all 24 bits

inline constexpr std::int64_t value_steps = 2;  // of d, 32 each, that are summed together
inline constexpr std::int64_t chunk_tiles = 2 * value_steps, value_chunk = chunk_tiles * tile_bytes;

/// The shapes of tiles. With 16 rows all are alike.
///
///   scores: 0 to 3 scores, 16 keys by Rows; 4, 7 K; 5, 6 q
///   scores of one group: 0 scores; 1 to 3 K; 4 to 7 q
///   sums:   0 to 3 sums, Rows by 16; 4 probabilities; 6, 7 V
struct alignas(64) TileConfig {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16];
  std::uint8_t rows[16];
};
template <int Rows>
inline void shape_for_scores() {
  constexpr std::uint16_t q = 4 * Rows;
  static constexpr TileConfig config{.row_bytes = {q, q, q, q, 64, q, q, 64},
                                     .rows = {16, 16, 16, 16, 16, 16, 16, 16}};
  _tile_loadconfig(&config);
}
template <int Rows>
inline void shape_for_one_group() {
  constexpr std::uint16_t q = 4 * Rows;
  static constexpr TileConfig config{.row_bytes = {q, 64, 64, 64, q, q, q, q},
                                     .rows = {16, 16, 16, 16, 16, 16, 16, 16}};
  _tile_loadconfig(&config);
}
template <int Rows>
inline void shape_for_sums() {
  static constexpr TileConfig config{.row_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
                                     .rows = {Rows, Rows, Rows, Rows, Rows, Rows, 16, 16}};
  _tile_loadconfig(&config);
}

/// The compiler must have stored what tiles load, and must not load what tiles have yet to store:
/// the intrinsics do not tell it.
inline void finish_stores() { __atomic_signal_fence(__ATOMIC_SEQ_CST); }

/// Whether any value of `tiles` tiles is infinite or NaN.
inline bool special_values(const std::uint8_t* values, std::int64_t tiles) {
  __mmask32 special = 0;
  for (std::int64_t i = 0; i < tiles * 16; ++i) {
    const Int v = and_(load(values + i * 64), set16(0x7F80));
    special |= _mm512_cmpeq_epi16_mask(v, set16(0x7F80));
  }
  return special != 0;
}

template <int Rows>
struct Products {
  std::int64_t steps;  // of 32 elements of d
  int terms;           // of q

  static constexpr std::int64_t query_bytes = 64 * Rows, sum_floats = 16 * Rows;
  static constexpr std::int64_t probability_bytes = block_keys / 32 * Rows * 64;

  /// Whether all of q fits into tiles: then hold_queries and score_held instead of scores.
  bool holds_queries() const { return steps * terms <= 4; }
  void hold_queries(const std::uint8_t* q) const {
    finish_stores();
    const std::int64_t count = steps * terms;
    _tile_loadd(4, q, 4 * Rows);
    if (count > 1) _tile_loadd(5, q + query_bytes, 4 * Rows);
    if (count > 2) _tile_loadd(6, q + 2 * query_bytes, 4 * Rows);
    if (count > 3) _tile_loadd(7, q + 3 * query_bytes, 4 * Rows);
  }
  /// scores[key][row] for 32 keys from `first` on.
  void score_held(const std::uint8_t* keys, std::int64_t first, float* scores) const {
    finish_stores();
    for (std::int64_t j = 0; j < 2; ++j) {
      const std::uint8_t* k = keys + j * steps * tile_bytes;
      const std::int64_t count = steps * terms;
      _tile_zero(0);
      _tile_loadd(1, k, 64);
      _tile_dpbf16ps(0, 1, 4);
      if (count > 1) {
        _tile_loadd(2, k + 1 % steps * tile_bytes, 64);
        _tile_dpbf16ps(0, 2, 5);
      }
      if (count > 2) {
        _tile_loadd(3, k + 2 % steps * tile_bytes, 64);
        _tile_dpbf16ps(0, 3, 6);
      }
      if (count > 3) {
        _tile_loadd(1, k + 3 % steps * tile_bytes, 64);
        _tile_dpbf16ps(0, 1, 7);
      }
      _tile_stored(0, scores + (first + j * 16) * Rows, 4 * Rows);
    }
    finish_stores();
  }

  void scores(const std::uint8_t* k, const std::uint8_t* q, std::int64_t first, float* s) const {
    finish_stores();
    s += first * Rows;
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
    finish_stores();
  }

  /// Sums of one group over the elements of a chunk are in tiles from load_sums to store_sums.
  template <int Tiles>
  static void load_sums(const float* output) {
    _tile_loadd(0, output, 64);
    _tile_loadd(1, output + sum_floats, 64);
    if constexpr (Tiles == 4) {
      _tile_loadd(2, output + 2 * sum_floats, 64);
      _tile_loadd(3, output + 3 * sum_floats, 64);
    }
  }
  /// Adds 32 keys' probabilities times V.
  template <int Tiles>
  void add_values(const std::uint8_t* p, const std::uint8_t* v) const {
    finish_stores();
    _tile_loadd(4, p, 64);
    _tile_loadd(6, v, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, v + tile_bytes, 64);
    _tile_dpbf16ps(1, 4, 7);
    if constexpr (Tiles == 4) {
      _tile_loadd(6, v + 2 * tile_bytes, 64);
      _tile_dpbf16ps(2, 4, 6);
      _tile_loadd(7, v + 3 * tile_bytes, 64);
      _tile_dpbf16ps(3, 4, 7);
    }
  }
  template <int Tiles>
  static void store_sums(float* output) {
    _tile_stored(0, output, 64);
    _tile_stored(1, output + sum_floats, 64);
    if constexpr (Tiles == 4) {
      _tile_stored(2, output + 2 * sum_floats, 64);
      _tile_stored(3, output + 3 * sum_floats, 64);
    }
    finish_stores();
  }
  /// Adds a block's probabilities times V, of all its keys.
  template <int Tiles>
  void add_block(const std::uint8_t* p, const std::uint8_t* v, float* output) const {
    finish_stores();
    load_sums<Tiles>(output);
    for (std::int64_t i = 0; i < block_keys / 32; ++i)
      add_values<Tiles>(p + i * Rows * 64, v + i * value_chunk);
    store_sums<Tiles>(output);
  }

  /// The same, of each row with the values it sees alone: the others are zeros.
  template <int Tiles>
  void add_seen(const std::uint8_t* p, const std::uint8_t* v, const RowGroup& group,
                std::int64_t rows, std::uint8_t* spare, float* output) const {
    alignas(64) float sums[Tiles * sum_floats];
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t pair = 0; pair < block_keys / 2; ++pair) {
        const std::int64_t first = pair / 4 * 8 + pair % 4;
        std::uint32_t mask = 0;
        if (first >= group.begin[r] && first < group.end[r]) mask |= 0x55555555u;
        if (first + 4 >= group.begin[r] && first + 4 < group.end[r]) mask |= 0xAAAAAAAAu;
        const std::int64_t at = pair / 16 * value_chunk + pair % 16 * 64;
        for (std::int64_t t = 0; t < Tiles; ++t)
          store(spare + at + t * tile_bytes,
                _mm512_maskz_loadu_epi16(mask, v + at + t * tile_bytes));
      }
      __builtin_memcpy(sums, output, sizeof sums);
      add_block<Tiles>(p, spare, sums);
      for (std::int64_t t = 0; t < Tiles; ++t)
        store_float(output + t * sum_floats + r * 16, load_float(sums + t * sum_floats + r * 16));
    }
  }

  /// A group's output times alpha.
  void move_output(const float* alpha, float* output) const {
    for (std::int64_t r = 0; r < Rows; ++r) {
      const Float factor = set_float(alpha[r]);
      for (std::int64_t t = 0; t < 2 * steps; ++t) {
        float* at = output + t * sum_floats + r * 16;
        store_float(at, mul(load_float(at), factor));
      }
    }
  }
};
