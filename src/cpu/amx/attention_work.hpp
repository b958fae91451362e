// Tile products in small pieces, to be issued between the vector instructions of a softmax: the two
// run beside each other only if neither fills the processor's window. Included inside a target
// region, after attention_products.hpp.

/// Nothing to do.
struct NoWork {
  void some() {}
};

/// One group's sums over a block, then another group's scores of the next block: in pieces of two
/// products. For one term of q, and d = 64 or 128. Either half may be absent.
class TileWork {
 public:
  TileWork(std::int64_t steps) : steps_(steps) {}

  /// Probabilities of one group, V of all its chunks after each other, and the output it is added to.
  void add_sums(const std::uint8_t* probabilities, const std::uint8_t* values, float* output) {
    probabilities_ = probabilities;
    values_ = values;
    output_ = output;
    sums_ = 4 * steps_;
  }
  /// 128 keys, in panels of 32, and one group's q.
  void add_scores(const std::uint8_t* keys, const std::uint8_t* queries, float* scores) {
    keys_ = keys;
    queries_ = queries;
    scores_ = scores;
    end_ = sums_ + 4 * steps_;
  }
  /// An eighth of the most there is.
  void some() {
    for (std::int64_t i = 0; i < steps_ / 2 && at_ < std::max(sums_, end_); ++i) next();
  }
  void finish() {
    while (at_ < std::max(sums_, end_)) next();
  }

 private:
  using Tiles = Products<16>;

  void next() {
    finish_stores();
    if (at_ < sums_)
      sum_piece(at_);
    else
      score_piece(at_ - sums_);
    finish_stores();
    ++at_;
  }

  /// Piece of a chunk: 32 keys, two of the chunk's four tiles.
  void sum_piece(std::int64_t piece) const {
    const std::int64_t chunk = piece / 8, keys = piece % 8 / 2;
    const std::uint8_t* v = values_ + (chunk * 4 + keys) * value_chunk;
    float* output = output_ + chunk * chunk_tiles * Tiles::sum_floats;
    if (piece % 8 == 0) Tiles::load_sums<chunk_tiles>(output);
    if (piece % 2 == 0) {
      _tile_loadd(4, probabilities_ + keys * 1024, 64);
      _tile_loadd(6, v, 64);
      _tile_dpbf16ps(0, 4, 6);
      _tile_loadd(7, v + tile_bytes, 64);
      _tile_dpbf16ps(1, 4, 7);
    } else {
      _tile_loadd(6, v + 2 * tile_bytes, 64);
      _tile_dpbf16ps(2, 4, 6);
      _tile_loadd(7, v + 3 * tile_bytes, 64);
      _tile_dpbf16ps(3, 4, 7);
    }
    if (piece % 8 == 7) Tiles::store_sums<chunk_tiles>(output);
  }

  /// Piece of a tile of 16 keys: two steps of d.
  void score_piece(std::int64_t piece) const {
    const std::int64_t pieces = steps_ / 2, tile = piece / pieces;
    const std::uint8_t* k = keys_ + (tile * steps_ + piece % pieces * 2) * tile_bytes;
    if (piece == 0) {
      _tile_loadd(4, queries_, 64);
      _tile_loadd(5, queries_ + tile_bytes, 64);
      if (pieces > 1) {
        _tile_loadd(6, queries_ + 2 * tile_bytes, 64);
        _tile_loadd(7, queries_ + 3 * tile_bytes, 64);
      }
    }
    if (piece % pieces == 0) {
      _tile_zero(0);
      _tile_loadd(1, k, 64);
      _tile_dpbf16ps(0, 1, 4);
      _tile_loadd(2, k + tile_bytes, 64);
      _tile_dpbf16ps(0, 2, 5);
    } else {
      _tile_loadd(1, k, 64);
      _tile_dpbf16ps(0, 1, 6);
      _tile_loadd(2, k + tile_bytes, 64);
      _tile_dpbf16ps(0, 2, 7);
    }
    if (piece % pieces == pieces - 1) _tile_stored(0, scores_ + tile * 256, 64);
  }

  std::int64_t steps_, at_ = 0, sums_ = 0, end_ = 0;
  const std::uint8_t *probabilities_ = nullptr, *values_ = nullptr, *keys_ = nullptr,
                     *queries_ = nullptr;
  float *output_ = nullptr, *scores_ = nullptr;
};
