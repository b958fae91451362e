// The memory of one tile of attention on AMX, and its keys in blocks of 128. Included inside a
// target region, after attention_products.hpp.

/// K and V of 128 keys, and what becomes of their products.
struct KeyBlock {
  KeyRows k, v;
  BlockFactors factors;
};

/// So many blocks of keys are expanded at once where many rows share them: they stay in the
/// second-level cache.
inline constexpr std::int64_t most_blocks = 4;
/// Bytes of a block's V, chunk after chunk.
inline std::int64_t value_block(std::int64_t d) {
  return (d + 63) / 64 * block_keys / 32 * value_chunk;
}

/// The memory of one tile of attention.
struct AttentionMemory {
  std::uint8_t *queries, *keys, *values, *probabilities, *spare;
  float *scores, *next_scores, *output;
  RowGroup* groups;
  KeyBlock* blocks;  // those at work, and one after them

  AttentionMemory(void* workspace, std::int64_t rows_of_tile, std::int64_t d) {
    at_ = static_cast<std::uint8_t*>(workspace);
    const std::int64_t count = (rows_of_tile + 15) / 16 * 16;
    queries = take(count * d * 2 * query_terms);
    const std::int64_t blocks_held = rows_of_tile > 16 ? most_blocks : 1;
    keys = take(blocks_held * block_keys * d * 2);
    values = take(blocks_held * value_block(d));
    spare = take(block_keys / 32 * value_chunk);
    probabilities = take(4 * 16 * block_keys * 2);
    scores = reinterpret_cast<float*>(take(2 * 16 * block_keys * 4));
    next_scores = reinterpret_cast<float*>(take(2 * 16 * block_keys * 4));
    output = reinterpret_cast<float*>(take(count * d * 4));
    groups =
        reinterpret_cast<RowGroup*>(take(count / 4 * static_cast<std::int64_t>(sizeof(RowGroup))));
    blocks = reinterpret_cast<KeyBlock*>(
        take((most_blocks + 1) * static_cast<std::int64_t>(sizeof(KeyBlock))));
  }
  std::int64_t bytes(const void* workspace) const {
    return at_ - static_cast<const std::uint8_t*>(workspace);
  }

 private:
  std::uint8_t* take(std::int64_t bytes) {
    std::uint8_t* const p = at_;
    at_ += (bytes + 63) / 64 * 64;
    return p;
  }
  std::uint8_t* at_;
};

/// What a tile's keys have in common.
struct TileFactors {
  double k_unit = 1, v_unit = 1;      // what factors are divided by
  bool same_k = true, same_v = true;  // one factor, the unit, for all keys
  double step = 1;                    // of products, to base 2, if same_k

  explicit TileFactors(const AttentionTile& tile) {
    const AttentionKeys& first = tile.keys.front();
    for (const AttentionKeys& keys : tile.keys) {
      same_k &= keys.k_factor == first.k_factor;
      same_v &= keys.v_factor == first.v_factor;
      k_unit = unit_of(tile.scale * keys.k_factor, k_unit);
      v_unit = unit_of(keys.v_factor, v_unit);
    }
    if (same_v) v_unit = first.v_factor;
    step = tile.scale * first.k_factor * log2_of_e;
  }
  /// Whether products serve as scores.
  bool plain(const AttentionTile& tile) const {
    return same_k && tile.softcap == 0 && step > 0x1p-100 && step < 0x1p100;
  }

 private:
  /// A power of two not below |x|, at least 1, so that factors of a whole tile can be divided by
  /// it.
  static double unit_of(double x, double unit) {
    int exponent = 0;
    if (!__builtin_isfinite(x) || __builtin_fabs(x) <= unit) return unit;
    __builtin_frexp(x, &exponent);
    return __builtin_ldexp(1.0, exponent);
  }
};

/// Goes through a tile's keys block by block.
class KeyBlocks {
 public:
  KeyBlocks(const AttentionTile& tile, const TileFactors& factors)
      : tile_(tile), factors_(factors), plain_(factors.plain(tile)) {
    for (const AttentionKeys& keys : tile.keys)
      mixed_ |= keys.k.dense() != tile.keys.front().k.dense() ||
                keys.v.dense() != tile.keys.front().v.dense();
  }

  /// The rows at positions [base, base + 128), from the run on at which the last call stopped.
  void find(std::int64_t base, KeyBlock& block) {
    BlockFactors& f = block.factors;
    f.softcap = static_cast<float>(tile_.softcap);
    f.unit = static_cast<float>(factors_.k_unit);
    f.step = static_cast<float>(plain_ ? factors_.step : log2_of_e);
    f.plain = plain_;
    f.same_v = factors_.same_v;
    while (at_ < tile_.keys.size() && tile_.keys[at_].begin + tile_.keys[at_].count <= base) ++at_;
    const bool whole = at_ < tile_.keys.size() && tile_.keys[at_].begin <= base &&
                       tile_.keys.back().begin + tile_.keys.back().count >= base + block_keys;
    if (!whole || mixed_) {
      block.k.clear();
      block.v.clear();
      fill(f.k, 0, block_keys, 0);
      fill(f.v, 0, block_keys, 0);
    }
    block.k.kind = kind_of(whole, tile_.keys.front().k);
    block.v.kind = kind_of(whole, tile_.keys.front().v);
    for (std::size_t i = at_; i < tile_.keys.size() && tile_.keys[i].begin < base + block_keys;
         ++i) {
      const AttentionKeys& keys = tile_.keys[i];
      const std::int64_t from = keys.begin > base ? keys.begin - base : 0,
                         last = keys.begin + keys.count - base,
                         to = last < block_keys ? last : block_keys;
      block.k.set(from, to, keys.k, base + from - keys.begin);
      block.v.set(from, to, keys.v, base + from - keys.begin);
      if (!f.plain) fill(f.k, from, to, tile_.scale * keys.k_factor / factors_.k_unit);
      if (!f.same_v) fill(f.v, from, to, keys.v_factor / factors_.v_unit);
    }
  }

 private:
  RowKind kind_of(bool whole, const MatmulRows& rows) const {
    return !whole || mixed_ ? RowKind::any : rows.dense() ? RowKind::dense : RowKind::codes;
  }
  static void fill(float* output, std::int64_t from, std::int64_t to, double factor) {
    for (std::int64_t j = from; j < to; ++j) output[j] = static_cast<float>(factor);
  }

  const AttentionTile& tile_;
  const TileFactors& factors_;
  bool plain_, mixed_ = false;  // mixed: some rows have scales and some have none
  std::size_t at_ = 0;
};

/// The part of a block that each row of a group sees.
inline void see_block(const AttentionTile& tile, std::int64_t first, std::int64_t base,
                      std::int64_t rows, RowGroup& group) {
  group.all_seen = true;
  for (std::int64_t r = 0; r < rows && first + r < tile.rows; ++r) {
    const AttentionRow& row = tile.row[first + r];
    const std::int64_t begin = row.begin > base ? row.begin - base : 0,
                       end = row.end - base < block_keys ? row.end - base : block_keys;
    group.begin[r] = static_cast<std::int32_t>(begin < end ? begin : 0);
    group.end[r] = static_cast<std::int32_t>(begin < end ? end : 0);
    group.all_seen &= group.begin[r] == 0 && group.end[r] == block_keys;
  }
}
