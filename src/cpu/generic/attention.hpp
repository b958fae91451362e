// Attention in FP32, 32 keys at a time: K is decoded into the cache, multiplied with all rows of a
// tile, then V over it; the softmax is the online one. Included inside a target region
// (cpu/target_region.hpp), after attention_sides.hpp, attention_softmax.hpp and
//   attention_sums           sums that registers hold beside their operands, at least 8
//   put_sums<Cols>(v, stride, output)
//                            the sum of the lanes of v[place_of_sum(r * Cols + c)] to
//                            output[r * stride + c]
//   LongSteps, ShortSteps    the decoders Nvfp4, Mxfp4, Mxfp8<>, all of as long steps; short ones
//                            for rows that are no longer than one
//
// A block is the keys at positions [32 b, 32 b + 32), whatever the tile, so a row's result does not
// depend on the others. Codes come out in a decoder's own order of elements: q is put into that
// order beforehand, and the result back afterwards.

inline constexpr std::int64_t attention_rows = 64;

/// Scores of Rows rows with as many keys as registers hold sums of; scores[r * attention_keys +
/// key].
template <int Rows>
inline void multiply_keys(const float* q, const float* k, std::int64_t stride, std::int64_t keys,
                          const RowsAhead* ahead, float* scores) {
  constexpr int cols = attention_sums / Rows;
  for (std::int64_t c = 0; c < keys; c += cols) {
    if (ahead)
      for (int j = 0; j < cols; ++j) ahead->ask(c + j);
    Float sum[attention_sums];
    MICROSCALE_UNROLL
    for (int i = 0; i < attention_sums; ++i) sum[i] = as_float(zero());
    const float* row = k + c * stride;
    for (std::int64_t e = 0; e < stride; e += lanes) {
      Float v[cols];
      MICROSCALE_UNROLL
      for (int j = 0; j < cols; ++j) v[j] = load_float(row + j * stride + e);
      MICROSCALE_UNROLL
      for (int r = 0; r < Rows; ++r) {
        const Float x = load_float(q + r * stride + e);
        MICROSCALE_UNROLL
        for (int j = 0; j < cols; ++j) {
          Float& s = sum[place_of_sum(r * cols + j)];
          s = fma(x, v[j], s);
        }
      }
    }
    put_sums<cols>(sum, attention_keys, scores + c);
  }
}

/// o[r] = o[r] * alpha[r] + sum of p[r][j] * v[j], over `keys` rows of v.
template <class Steps, int Rows>
inline void multiply_values(const float* p, const float* alpha, const float* v, std::int64_t stride,
                            std::int64_t keys, const RowsAhead* ahead, float* o) {
  constexpr int step = row_step<Steps> / lanes, most = attention_sums / Rows,
                cols = most < step ? most : step;  // of a step's vectors
  for (std::int64_t e = 0; e < stride; e += cols * lanes) {
    Float sum[Rows * cols];
    MICROSCALE_UNROLL
    for (int i = 0; i < Rows * cols; ++i) sum[i] = as_float(zero());
    for (std::int64_t j = 0; j < keys; ++j) {
      if (ahead && e == 0) ahead->ask(j);
      Float x[cols];
      MICROSCALE_UNROLL
      for (int c = 0; c < cols; ++c) x[c] = load_float(v + j * stride + e + c * lanes);
      MICROSCALE_UNROLL
      for (int r = 0; r < Rows; ++r) {
        const Float weight = set_float(p[r * attention_keys + j]);
        MICROSCALE_UNROLL
        for (int c = 0; c < cols; ++c) sum[r * cols + c] = fma(weight, x[c], sum[r * cols + c]);
      }
    }
    MICROSCALE_UNROLL
    for (int r = 0; r < Rows; ++r) {
      const Float factor = set_float(alpha[r]);
      MICROSCALE_UNROLL
      for (int c = 0; c < cols; ++c) {
        float* at = o + r * stride + e + c * lanes;
        store_float(at, fma(load_float(at), factor, sum[r * cols + c]));
      }
    }
  }
}

/// The memory of one tile.
struct AttentionMemory {
  float *q, *output, *rows, *scores, *alpha;
  AttentionState* state;
  std::int16_t *k_order, *v_order;

  AttentionMemory(void* workspace, std::int64_t count, std::int64_t stride) {
    q = static_cast<float*>(workspace);
    output = q + count * stride;
    rows = output + count * stride;
    scores = rows + attention_keys * stride;
    alpha = scores + count * attention_keys;
    state = reinterpret_cast<AttentionState*>(alpha + (count + 15) / 16 * 16);
    k_order = reinterpret_cast<std::int16_t*>(state + count);
    v_order = k_order + stride;
  }
  static std::int64_t bytes(std::int64_t count, std::int64_t stride) {
    const std::int64_t floats =
        2 * count * stride + attention_keys * stride + count * attention_keys + count + 16;
    return floats * 4 + count * static_cast<std::int64_t>(sizeof(AttentionState)) + 2 * stride * 2;
  }
};

inline std::int64_t attention_workspace(std::int64_t rows, std::int64_t, std::int64_t d) {
  return AttentionMemory::bytes(rows, padded<LongSteps>(d));
}

/// Groups of 4, 2 and 1 rows.
template <class Function>
inline void for_row_groups(std::int64_t rows, Function function) {
  std::int64_t r = 0;
  for (; r + 4 <= rows; r += 4) function.template run<4>(r);
  for (; r + 2 <= rows; r += 2) function.template run<2>(r);
  for (; r < rows; ++r) function.template run<1>(r);
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

/// The part of positions [base, base + 32) that a row sees, from base on.
struct Seen {
  int begin, end;
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
  void decode(const AttentionSide<Steps>& side, bool values, std::int64_t base, double scale,
              AttentionMemory& m, float* factor) {
    const std::int64_t stride = padded<Steps>(side.d), end = base + attention_keys;
    for (std::size_t i = at_; i < tile_.keys.size(); ++i) {
      const AttentionKeys& keys = tile_.keys[i];
      const std::int64_t from = keys.begin > base ? keys.begin : base;
      const std::int64_t last = keys.begin + keys.count, to = last < end ? last : end;
      if (from >= end) break;
      if (from >= to) continue;
      const double f = scale * (values ? keys.v_factor : keys.k_factor) *
                       side.decode(values ? keys.v : keys.k, from - keys.begin, to - from,
                                   m.rows + (from - base) * stride);
      for (std::int64_t p = from; p < to; ++p) factor[p - base] = static_cast<float>(f);
    }
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
  const AttentionTile& tile_;
  std::size_t at_ = 0;
};

template <class Steps>
void load_queries(const AttentionTile& tile, const AttentionSide<Steps>& side, AttentionMemory& m) {
  const std::int64_t stride = padded<Steps>(tile.d);
  for (std::int64_t r = 0; r < tile.rows; ++r) {
    m.state[r] = {-__builtin_inff(), 0.0};
    for (std::int64_t i = 0; i < stride; ++i) {
      const std::int64_t e = side.order ? side.order[i] : i;
      m.q[r * stride + i] = e < tile.d ? static_cast<float>(tile.q[r * tile.d + e]) : 0.0f;
      m.output[r * stride + i] = 0.0f;
    }
  }
}

template <class Steps>
void store_results(const AttentionTile& tile, const AttentionSide<Steps>& side,
                   const AttentionMemory& m) {
  const std::int64_t stride = padded<Steps>(tile.d);
  for (std::int64_t r = 0; r < tile.rows; ++r) {
    tile.largest[r] = static_cast<double>(m.state[r].largest);
    tile.sum[r] = m.state[r].sum;
    for (std::int64_t i = 0; i < stride; ++i) {
      const std::int64_t e = side.order ? side.order[i] : i;
      if (e < tile.d) tile.output[r * tile.d + e] = static_cast<double>(m.output[r * stride + i]);
    }
  }
}

template <class Steps>
void attend_by(const AttentionTile& tile) {
  const std::int64_t stride = padded<Steps>(tile.d);
  AttentionMemory m(tile.workspace, tile.rows, stride);
  AttentionSide<Steps> k{.d = tile.d}, v{.d = tile.d};
  for (const AttentionKeys& keys : tile.keys) {
    if (!keys.k.dense()) k.blocks = true, k.format = keys.k.format;
    if (!keys.v.dense()) v.blocks = true, v.format = keys.v.format;
  }
  k.choose_order(m.k_order);
  v.choose_order(m.v_order);
  load_queries(tile, k, m);

  const std::int64_t first = tile.keys.front().begin,
                     end = tile.keys.back().begin + tile.keys.back().count;
  AttentionBlock block{.k_factor = {}, .v_factor = {}, .softcap = static_cast<float>(tile.softcap)};
  KeyRuns<Steps> runs(tile);
  RowsAhead ahead;
  for (std::int64_t i = 0; i < attention_keys * stride; i += lanes)  // rows that no key fills
    store_float(m.rows + i, as_float(zero()));
  for (std::int64_t base = first / attention_keys * attention_keys; base < end;
       base += attention_keys) {
    const std::int64_t keys = end - base < attention_keys ? end - base : attention_keys;
    runs.pass(base);
    runs.decode(k, false, base, tile.scale, m, block.k_factor);
    runs.look_ahead(false, base, ahead);
    for_row_groups(tile.rows, KeyProducts{m, ahead, stride, keys});
    bool all_seen = true;
    for (std::int64_t r = 0; r < tile.rows; ++r) {
      const Seen seen = seen_of(tile.row[r], base);
      all_seen &= seen.begin == 0 && seen.end == attention_keys;
    }
    runs.decode(v, true, base, 1.0, m, block.v_factor);
    runs.look_ahead(true, base, ahead);
    for (std::int64_t r = 0; r < tile.rows; ++r) {
      const Seen seen = seen_of(tile.row[r], base);
      float* scores = m.scores + r * attention_keys;
      m.alpha[r] = softmax_block(block, static_cast<float>(tile.row[r].shift), seen.begin, seen.end,
                                 scores, m.state[r]);
      if (!all_seen)  // whatever V holds where it is not seen
        multiply_values<Steps, 1>(scores + seen.begin, m.alpha + r, m.rows + seen.begin * stride,
                                  stride, seen.end - seen.begin, nullptr, m.output + r * stride);
    }
    if (all_seen) for_row_groups(tile.rows, ValueProducts<Steps>{m, ahead, stride, keys});
  }
  store_results(tile, v, m);
}

inline void attend_tile(const AttentionTile& tile) {
  tile.d <= row_step<ShortSteps> ? attend_by<ShortSteps>(tile) : attend_by<LongSteps>(tile);
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
  return {padded<LongSteps>(d) / lanes + 10, attention_keys + 8 + 2 * (keys / attention_keys + 2)};
}

inline constexpr AttentionKernels attention_kernels() {
  return {.supports = attention_supports,
          .tile_rows = attention_rows,
          .workspace_bytes = attention_workspace,
          .attend = attend_tile,
          .roundings = attention_roundings};
}
