// Attention in FP32, 32 keys at a time: K is decoded into the cache, multiplied with all rows of a
// tile, then V over it; the softmax is the online one. Included inside a target region
// (cpu/target_region.hpp), after attention_rows.hpp, attention_runs.hpp and, in front of them,
//   attention_sums           sums that registers hold beside their operands, at least 8
//   put_sums<Cols>(v, stride, output)
//                            the sum of the lanes of v[place_of_sum(r * Cols + c)] to
//                            output[r * stride + c]
//   LongSteps, ShortSteps    the decoders Nvfp4, Mxfp4, Mxfp8<>, all of as long steps; short ones
//                            for rows that are no longer than one; and Coded, how products with
//                            FP4 keys are taken in integers, or NoCodedKeys
//
// A block is the keys at positions [32 b, 32 b + 32), whatever the tile, so a row's result does not
// depend on the others. Codes come out in a decoder's own order of elements: q is put into that
// order beforehand, and the result back afterwards. A row that sees all of a block of FP4 keys has
// its products taken in integers where there is Coded, whose sums are in the order of FP4's
// decoder.

inline constexpr std::int64_t attention_rows = 64;

/// Of backends and steps whose products are all taken in FP32.
struct NoCodedKeys {
  static constexpr bool some = false;
  static constexpr std::int64_t roundings = 0;
  static std::int64_t bytes(std::int64_t, std::int64_t) { return 0; }
  NoCodedKeys(const AttentionTile&, void*) {}
};

/// The memory of one tile.
struct AttentionMemory {
  void* coded;
  float *q, *output, *rows, *scores, *alpha;
  AttentionState* state;
  std::int16_t *k_order, *v_order;

  AttentionMemory(void* workspace, std::int64_t count, std::int64_t stride,
                  std::int64_t coded_bytes) {
    coded = workspace;
    q = reinterpret_cast<float*>(static_cast<std::uint8_t*>(workspace) + coded_bytes);
    output = q + count * stride;
    rows = output + count * stride;
    scores = rows + attention_keys * stride;
    alpha = scores + count * attention_keys;
    state = reinterpret_cast<AttentionState*>(alpha + (count + 15) / 16 * 16);
    k_order = reinterpret_cast<std::int16_t*>(state + count);
    v_order = k_order + stride;
  }
  static std::int64_t bytes(std::int64_t count, std::int64_t stride, std::int64_t coded_bytes) {
    const std::int64_t floats =
        2 * count * stride + attention_keys * stride + count * attention_keys + count + 16;
    return coded_bytes + floats * 4 + count * static_cast<std::int64_t>(sizeof(AttentionState)) +
           2 * stride * 2;
  }
};

inline std::int64_t attention_workspace(std::int64_t rows, std::int64_t, std::int64_t d) {
  return AttentionMemory::bytes(rows, padded<LongSteps>(d), LongSteps::Coded::bytes(rows, d));
}

struct KeyProducts {
  const AttentionMemory& m;
  const RowsAhead& ahead;  // asked for beside the first rows
  std::int64_t stride, keys;
  template <int Rows>
  void run(std::int64_t r) const {
    multiply_keys<Rows>(m.q + r * stride, m.rows, stride, keys, r == 0 ? &ahead : nullptr,
                        m.scores + r * attention_keys);
  }
};
template <class Steps>
struct ValueProducts {
  const AttentionMemory& m;
  const RowsAhead& ahead;
  std::int64_t stride, keys;
  template <int Rows>
  void run(std::int64_t r) const {
    multiply_values<Steps, Rows>(m.scores + r * attention_keys, m.alpha + r, m.rows, stride, keys,
                                 r == 0 ? &ahead : nullptr, m.output + r * stride);
  }
};

template <class Coded>
struct CodedKeyProducts {
  const AttentionMemory& m;
  const Coded& coded;
  template <int Rows>
  void run(std::int64_t r) const {
    coded.scores(Rows / 2, r, m.scores + r * attention_keys);
  }
};
template <class Coded>
struct CodedValueProducts {
  const AttentionMemory& m;
  const Coded& coded;
  std::int64_t stride;
  template <int Rows>
  void run(std::int64_t r) const {
    coded.sums(Rows / 2, m.scores + r * attention_keys, m.alpha + r, m.output + r * stride);
  }
};

template <class Steps>
void load_queries(const AttentionTile& tile, const AttentionSide<Steps>& side, AttentionMemory& m) {
  const std::int64_t stride = padded<Steps>(tile.d);
  for (std::int64_t r = 0; r < tile.rows; ++r)
    for (std::int64_t i = 0; i < stride; ++i) {
      const std::int64_t e = side.order ? side.order[i] : i;
      m.q[r * stride + i] = e < tile.d ? static_cast<float>(tile.q[r * tile.d + e]) : 0.0f;
    }
}

template <class Steps>
void store_results(const AttentionTile& tile, const AttentionSide<Steps>& side,
                   const AttentionMemory& m) {
  const std::int64_t stride = padded<Steps>(tile.d);
  for (std::int64_t r = 0; r < tile.rows; ++r) {
    tile.largest[r] = static_cast<double>(m.state[r].largest);
    tile.sum[r] = m.state[r].sum;
    const float* from = m.output + r * stride;
    double* to = tile.output + r * tile.d;
    if (side.order) {
      for (std::int64_t i = 0; i < stride; ++i)
        if (side.order[i] < tile.d) to[side.order[i]] = static_cast<double>(from[i]);
    } else {
      for (std::int64_t i = 0; i < tile.d; ++i) to[i] = static_cast<double>(from[i]);
    }
  }
}

template <class Steps>
class TileAttention {
 public:
  explicit TileAttention(const AttentionTile& tile)
      : tile_(tile),
        stride_(padded<Steps>(tile.d)),
        m_(tile.workspace, tile.rows, stride_, Coded::bytes(tile.rows, tile.d)),
        k_{.d = tile.d},
        v_{.d = tile.d},
        runs_(tile),
        coded_(tile, m_.coded) {
    block_.softcap = static_cast<float>(tile.softcap);
    for (const AttentionKeys& keys : tile.keys) {
      if (!keys.k.dense()) k_.blocks = true, k_.format = keys.k.format;
      if (!keys.v.dense()) v_.blocks = true, v_.format = keys.v.format;
      plain_ &= keys.v_factor > 0x1p-40 && keys.v_factor < 0x1p40;
    }
    v_.choose_order(m_.v_order);
    for (std::int64_t r = 0; r < tile.rows; ++r) m_.state[r] = {-__builtin_inff(), 0.0};
    for (std::int64_t i = 0; i < tile.rows * stride_; i += lanes)
      store_float(m_.output + i, as_float(zero()));
  }

  void run() {
    const std::int64_t first = tile_.keys.front().begin;
    end_ = tile_.keys.back().begin + tile_.keys.back().count;
    for (std::int64_t base = first / attention_keys * attention_keys; base < end_;
         base += attention_keys) {
      runs_.pass(base);
      runs_.find_factors(base, block_);
      choose_integers(base);
      multiply_all_keys(base);
      for (std::int64_t r = 0; r < tile_.rows; ++r)
        m_.alpha[r] = softmax_block(block_, static_cast<float>(tile_.row[r].shift), seen_[r].begin,
                                    seen_[r].end, m_.scores + r * attention_keys, m_.state[r]);
      multiply_all_values(base);
    }
    store_results(tile_, v_, m_);
  }

 private:
  using Coded = typename Steps::Coded;

  /// Which rows' products are taken in integers: a row that sees the whole block, whatever others
  /// see.
  void choose_integers(std::int64_t base) {
    for (std::int64_t r = 0; r < tile_.rows; ++r)
      seen_[r] = seen_of(tile_.row[r], base), integers_[r] = false;
    some_ = false, others_ = true;
    if constexpr (Coded::some) {
      if (!has_next_) find(base, next_);
      KeySides* const same = here_;
      here_ = next_, next_ = same;
      has_next_ = true;
      find(base + attention_keys, next_);
      bool wanted = false;
      for (std::int64_t r = 0; r < tile_.rows; ++r) wanted |= seen_[r].all() && coded_.usable(r);
      if (!wanted || !here_->there || !plain_) return;
      if (!coded_.take(here_->k, here_->v)) return;
      others_ = false;
      for (std::int64_t r = 0; r < tile_.rows; ++r) {
        integers_[r] = seen_[r].all() && coded_.usable(r);
        some_ |= integers_[r];
        others_ |= !integers_[r] && seen_[r].end > 0;
      }
    }
  }

  void multiply_all_keys(std::int64_t base) {
    if constexpr (Coded::some)
      if (some_) {
        coded_.expand_keys(here_->k, next_->there ? &next_->k : nullptr);
        for_row_groups(tile_.rows, integers_, true, CodedKeyProducts<Coded>{m_, coded_});
      }
    if (!others_) return;
    prepare_others();
    const std::int64_t keys = end_ - base < attention_keys ? end_ - base : attention_keys;
    runs_.decode(k_, false, base, m_.rows);
    runs_.look_ahead(false, base, ahead_);
    for_row_groups(tile_.rows, integers_, false, KeyProducts{m_, ahead_, stride_, keys});
  }

  void multiply_all_values(std::int64_t base) {
    if constexpr (Coded::some)
      if (some_) {
        coded_.expand_values(here_->v, next_->there ? &next_->v : nullptr);
        for_row_groups(tile_.rows, integers_, true, CodedValueProducts<Coded>{m_, coded_, stride_});
      }
    if (!others_) return;
    runs_.decode(v_, true, base, m_.rows);
    runs_.look_ahead(true, base, ahead_);
    bool all = true;
    for (std::int64_t r = 0; r < tile_.rows; ++r) all &= integers_[r] || seen_[r].all();
    if (all)
      return for_row_groups(tile_.rows, integers_, false,
                            ValueProducts<Steps>{m_, ahead_, stride_, attention_keys});
    for (std::int64_t r = 0; r < tile_.rows; ++r)  // whatever V holds where it is not seen
      if (!integers_[r])
        multiply_values<Steps, 1>(m_.scores + r * attention_keys + seen_[r].begin, m_.alpha + r,
                                  m_.rows + seen_[r].begin * stride_, stride_,
                                  seen_[r].end - seen_[r].begin, nullptr, m_.output + r * stride_);
  }

  /// What products in FP32 want, once.
  void prepare_others() {
    if (prepared_) return;
    prepared_ = true;
    k_.choose_order(m_.k_order);
    load_queries(tile_, k_, m_);
    for (std::int64_t i = 0; i < attention_keys * stride_; i += lanes)  // rows that no key fills
      store_float(m_.rows + i, as_float(zero()));
  }

  struct KeySides {
    KeyRows k, v;
    bool there = false;
  };
  void find(std::int64_t base, KeySides* sides) const {
    sides->there = runs_.find(false, base, sides->k) && runs_.find(true, base, sides->v);
  }
  const AttentionTile& tile_;
  const std::int64_t stride_;
  AttentionMemory m_;
  AttentionSide<Steps> k_, v_;
  KeyRuns<Steps> runs_;
  Coded coded_;
  AttentionBlock block_{};
  RowsAhead ahead_;
  Seen seen_[attention_rows];
  bool integers_[attention_rows];
  bool some_ = false, others_ = true;  // rows whose products are, and are not, taken in integers
  bool prepared_ = false;              // for products in FP32
  std::int64_t end_ = 0;
  KeySides sides_[2], *here_ = sides_, *next_ = sides_ + 1;
  bool has_next_ = false, plain_ = true;  // global scales of V are numbers of a common size
};

inline void attend_tile(const AttentionTile& tile) {
  if (tile.d <= row_step<ShortSteps>)
    TileAttention<ShortSteps>(tile).run();
  else
    TileAttention<LongSteps>(tile).run();
}

inline bool attention_takes(const MatmulRows& rows) {
  return rows.dense() || rows.format == Format::nvfp4 || rows.format == Format::mxfp4 ||
         rows.format == Format::mxfp8_e4m3 || rows.format == Format::mxfp8_e5m2;
}

inline bool attention_supports(const AttentionNeeds& needs) {
  return attention_takes(needs.k) && attention_takes(needs.v) &&
         needs.probabilities == ProbabilityRule::exact;
}

/// A score: its lane's products, the lanes, q to FP32, the factor and the shift. The result: the
/// keys of a block, its lanes' place in the sum, then two roundings a block.
inline AttentionRoundings attention_roundings(std::int64_t keys, std::int64_t d) {
  return {.score = padded<LongSteps>(d) / lanes + 10,
          .output = attention_keys + 8 + 2 * (keys / attention_keys + 2),
          .query = LongSteps::Coded::roundings,
          .weight = LongSteps::Coded::roundings};
}

inline constexpr AttentionKernels attention_kernels() {
  return {.supports = attention_supports,
          .tile_rows = attention_rows,
          .workspace_bytes = attention_workspace,
          .attend = attend_tile,
          .roundings = attention_roundings};
}
