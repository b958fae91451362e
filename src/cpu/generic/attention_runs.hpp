// The keys of a tile by position: which of them a row sees, their rows and factors, 32 at a time.
// Included inside a target region (cpu/target_region.hpp), after attention_sides.hpp and
// attention_softmax.hpp.

/// The part of positions [base, base + 32) that a row sees, from base on.
struct Seen {
  int begin, end;
  bool all() const { return begin == 0 && end == attention_keys; }
};
inline Seen seen_of(const AttentionRow& row, std::int64_t base) {
  const std::int64_t begin = row.begin > base ? row.begin - base : 0,
                     end = row.end - base < attention_keys ? row.end - base : attention_keys;
  if (begin >= end) return {0, 0};
  return {static_cast<int>(begin), static_cast<int>(end)};
}

/// Goes through the positions of a tile.
template <class Steps>
class KeyRuns {
 public:
  explicit KeyRuns(const AttentionTile& tile) : tile_(tile) {}

  /// Decodes K or V of positions [base, base + 32) that the tile has, at their places.
  void decode(const AttentionSide<Steps>& side, bool values, std::int64_t base,
              float* output) const {
    const std::int64_t stride = padded<Steps>(side.d);
    for (std::size_t i = at_; i < tile_.keys.size(); ++i) {
      const Part part = part_of(tile_.keys[i], base);
      if (part.from >= base + attention_keys) break;
      if (part.from >= part.to) continue;
      const AttentionKeys& keys = tile_.keys[i];
      side.decode(values ? keys.v : keys.k, part.from - keys.begin, part.to - part.from,
                  output + (part.from - base) * stride);
    }
  }
  /// What products with them are multiplied by.
  void find_factors(std::int64_t base, AttentionBlock& block) {
    for (std::size_t i = at_; i < tile_.keys.size(); ++i) {
      const AttentionKeys& keys = tile_.keys[i];
      const Part part = part_of(keys, base);
      if (part.from >= base + attention_keys) break;
      const bool all = part.to - part.from == attention_keys;
      if (all && same_factors_ == i + 1) return;  // as in the block before
      same_factors_ = all ? i + 1 : 0;
      const auto k = static_cast<float>(tile_.scale * keys.k_factor *
                                        AttentionSide<Steps>::factor(keys.k)),
                 v = static_cast<float>(keys.v_factor * AttentionSide<Steps>::factor(keys.v));
      for (std::int64_t p = part.from; p < part.to; ++p)
        block.k_factor[p - base] = k, block.v_factor[p - base] = v;
    }
  }
  /// K or V of positions [base, base + 32), if they are FP4 throughout, and all there, in runs of
  /// 16, as pages have them.
  bool find(bool values, std::int64_t base, KeyRows& found) const {
    std::int64_t position = base;
    for (std::size_t i = at_; i < tile_.keys.size() && position < base + attention_keys; ++i) {
      const AttentionKeys& keys = tile_.keys[i];
      const MatmulRows& rows = values ? keys.v : keys.k;
      const Part part = part_of(keys, base);
      if (part.from >= part.to) continue;
      if (part.from != position || rows.dense()) return false;
      if (rows.format != Format::nvfp4 && rows.format != Format::mxfp4) return false;
      if (position > base && rows.format != found.format) return false;
      found.format = rows.format;
      for (; position < part.to; position += 16) {
        if ((position - base) % 16 != 0 || part.to - position < 16) return false;
        found.set((position - base) / 16, rows.from(position - keys.begin));
      }
    }
    return position == base + attention_keys;
  }
  void pass(std::int64_t base) {  // what ends before `base` is not looked at again
    while (at_ < tile_.keys.size() && tile_.keys[at_].begin + tile_.keys[at_].count <= base) ++at_;
  }

  /// K or V of the positions behind those of `base`.
  void look_ahead(bool values, std::int64_t base, RowsAhead& ahead) const {
    ahead.count = 0;
    std::int64_t position = base + attention_keys;
    const std::int64_t end = position + attention_keys;
    for (std::size_t i = at_; i < tile_.keys.size() && position < end; ++i) {
      const AttentionKeys& keys = tile_.keys[i];
      for (; position < end && position < keys.begin + keys.count; ++position)
        ahead.add(values ? keys.v : keys.k, position - keys.begin, tile_.d);
    }
  }

 private:
  struct Part {
    std::int64_t from, to;
  };
  static Part part_of(const AttentionKeys& keys, std::int64_t base) {
    const std::int64_t last = keys.begin + keys.count, end = base + attention_keys;
    return {keys.begin > base ? keys.begin : base, last < end ? last : end};
  }

  const AttentionTile& tile_;
  std::size_t at_ = 0, same_factors_ = 0;  // the latter of the run of keys in front of this place
};
