// Tile products in small pieces, to be issued between the vector instructions of a softmax: the two
// run beside each other only if neither fills the processor's window. Included inside a target
// region, after attention_products.hpp.

/// Nothing to do.
struct NoWork {
  void some() {}
};

/// For two groups of 16 rows (or one): their sums over a block, then scores of the next block. A
/// piece is four products of two by two tiles, as every tile that is loaded comes from the
/// second-level cache. Either half may be absent.
class TileWork {
 public:
  TileWork(std::int64_t steps, int terms) : steps_(steps), terms_(terms) {}

  /// Probabilities and output of the first group, which those of the second follow; V as
  /// expand_values leaves it, chunk after chunk.
  void add_sums(std::int64_t groups, const std::uint8_t* probabilities, const std::uint8_t* values,
                float* output) {
    two_sums_ = groups > 1;
    probabilities_ = probabilities;
    values_ = values;
    output_ = output;
    sums_ = end_ = steps_ * keys32;
  }
  /// 128 keys, 32 after 32; q and scores of the first group, which those of the second follow.
  void add_scores(std::int64_t groups, const std::uint8_t* keys, const std::uint8_t* queries,
                  float* scores) {
    two_scores_ = groups > 1;
    keys_ = keys;
    queries_ = queries;
    scores_ = scores;
    end_ = sums_ + keys32 * steps_ * terms_;
  }
  /// A 32nd part of what there is.
  void some() {
    finish_stores();
    for (due_ += end_; due_ >= 32; due_ -= 32) next();
    finish_stores();
  }
  void finish() {
    finish_stores();
    while (at_ < end_) next();
    finish_stores();
  }

 private:
  using Tiles = Products<16>;
  static constexpr std::int64_t keys32 = block_keys / 32;

  void next() {
    if (at_ >= end_) return;
    if (at_ < sums_)
      sum_piece(at_ / keys32, at_ % keys32);
    else
      score_piece((at_ - sums_) / (steps_ * terms_), (at_ - sums_) % (steps_ * terms_));
    ++at_;
  }

  /// The two tiles of d of a step, from the i-th 32 keys.
  void sum_piece(std::int64_t step, std::int64_t i) const {
    const std::uint8_t* v =
        values_ + (step / 2 * keys32 + i) * value_chunk + step % 2 * 2 * tile_bytes;
    const std::uint8_t* p = probabilities_ + i * tile_bytes;
    float* a = output_ + 2 * step * Tiles::sum_floats;
    float* b = a + 2 * steps_ * Tiles::sum_floats;
    if (i == 0) {
      _tile_loadd(0, a, 64);
      _tile_loadd(1, a + Tiles::sum_floats, 64);
      if (two_sums_) {
        _tile_loadd(2, b, 64);
        _tile_loadd(3, b + Tiles::sum_floats, 64);
      }
    }
    _tile_loadd(4, p, 64);
    _tile_loadd(6, v, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, v + tile_bytes, 64);
    _tile_dpbf16ps(1, 4, 7);
    if (two_sums_) {
      _tile_loadd(5, p + Tiles::probability_bytes, 64);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
    if (i < keys32 - 1) return;
    _tile_stored(0, a, 64);
    _tile_stored(1, a + Tiles::sum_floats, 64);
    if (two_sums_) {
      _tile_stored(2, b, 64);
      _tile_stored(3, b + Tiles::sum_floats, 64);
    }
  }

  /// The `at`-th step, through all terms of q, of the i-th 32 keys.
  void score_piece(std::int64_t i, std::int64_t at) const {
    const std::uint8_t* k = keys_ + (i * 2 * steps_ + at % steps_) * tile_bytes;
    const std::uint8_t* q = queries_ + at * tile_bytes;
    if (at == 0) {
      _tile_zero(0);
      _tile_zero(1);
      _tile_zero(2);
      _tile_zero(3);
    }
    _tile_loadd(5, q, 64);
    _tile_loadd(4, k, 64);
    _tile_dpbf16ps(0, 4, 5);
    _tile_loadd(7, k + steps_ * tile_bytes, 64);
    _tile_dpbf16ps(1, 7, 5);
    if (two_scores_) {
      _tile_loadd(6, q + query_terms * steps_ * tile_bytes, 64);
      _tile_dpbf16ps(2, 4, 6);
      _tile_dpbf16ps(3, 7, 6);
    }
    if (at < steps_ * terms_ - 1) return;
    float* const a = scores_ + i * 32 * 16;
    _tile_stored(0, a, 64);
    _tile_stored(1, a + 256, 64);
    if (two_scores_) {
      _tile_stored(2, a + 16 * block_keys, 64);
      _tile_stored(3, a + 16 * block_keys + 256, 64);
    }
  }

  std::int64_t steps_, at_ = 0, due_ = 0, sums_ = 0, end_ = 0;
  int terms_;
  bool two_sums_ = false, two_scores_ = false;
  const std::uint8_t *probabilities_ = nullptr, *values_ = nullptr, *keys_ = nullptr,
                     *queries_ = nullptr;
  float *output_ = nullptr, *scores_ = nullptr;
};
