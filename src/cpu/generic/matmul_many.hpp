// Matrix products of many rows, whatever multiplies them: lanes are rows of a, weights are decoded
// once for all rows of a tile, and each of them is multiplied with several vectors of rows.
// Included inside a target region (cpu/target_region.hpp), after decode_run.hpp. A kernel P has
//   vectors, cols              of rows, and of columns, whose sums registers hold together
//   chunk                      elements of k that are decoded, and summed, at a time
//   Column                     a chunk of one column's weights, decoded
//   place(b, c, at)            where element `at` of column c has its codes and scales
//   code_bytes                 of a chunk
//   words(elements)            32-bit words that so many elements of a prepared row take
//   step                       elements to a multiple of which a row is filled up
//   decode(place, valid, to)   a chunk's elements, of which `valid` are there, to a Column
//   block<V, C>(x, width, columns, count, ahead, sums)
//                              adds the products of V vectors of rows and C columns, over `count`
//                              elements, and asks for memory from `ahead` on: a line now and then,
//                              as what is asked for at once has to wait
//   ahead_bytes(count)         how much of it
// Prepared rows come in groups of vectors * lanes, the last one as wide as it has to be, in lanes:
// of a group of w rows, word p of row r at x[p * w + r]. A sum is taken over a chunk first, then
// over the chunks, in an order that depends on k alone.

inline constexpr MatmulTileShape many_shape{512, 128};

/// Up to so many rows of a tile, weights are decoded only for as many columns as registers hold,
/// and are still in the first-level cache when they are multiplied. Then as many elements of k pass
/// as make few_words of all rows, so that these stay in the second-level cache for the next
/// columns.
inline constexpr std::int64_t few_rows = 64, few_words = 1 << 18;

/// Where a column's codes and scales lie, from some element on.
struct WeightsPlace {
  const std::uint8_t *codes, *scales;
};

inline std::int64_t rounded_up(std::int64_t value, std::int64_t to) {
  return (value + to - 1) / to * to;
}

/// Rows of the group that begins with row `row` of m.
template <class P>
inline std::int64_t group_width(std::int64_t row, std::int64_t m) {
  const std::int64_t rest = rounded_up(m - row, lanes), most = P::vectors * lanes;
  return rest < most ? rest : most;
}

template <class P>
inline std::int64_t prepared_words(std::int64_t k) {
  return P::words(rounded_up(k, P::step));
}

/// Rows from `first` on, a multiple of lanes, in their group.
struct PreparedRows {
  float* words;
  std::int64_t width;
};
template <class P>
inline PreparedRows prepared_rows(const MatmulProduct& product, std::int64_t first,
                                  void* prepared) {
  const std::int64_t group = first / (P::vectors * lanes) * (P::vectors * lanes);
  return {static_cast<float*>(prepared) + group * prepared_words<P>(product.k) + (first - group),
          group_width<P>(group, product.m)};
}

/// The sums of a tile, column by column, and decoded weights.
template <class P>
struct ManyMemory {
  float* sums;
  typename P::Column* columns;
  explicit ManyMemory(void* workspace)
      : sums(static_cast<float*>(workspace)),
        columns(reinterpret_cast<typename P::Column*>(sums + many_shape.rows * many_shape.cols)) {}
  static constexpr std::int64_t bytes() {
    return many_shape.cols *
           (many_shape.rows * 4 + static_cast<std::int64_t>(sizeof(typename P::Column)));
  }
};

/// A chunk of k of some columns.
struct ManyChunk {
  MatmulRows b;  // row 0 is the first column
  std::int64_t cols, at, count;
};

/// A group's rows in a chunk.
struct ManyRows {
  const float* x;
  std::int64_t width;
  const char* ahead;
  bool first;  // the next chunk's weights are asked for beside these rows
};

template <class P>
[[gnu::always_inline]] inline void ask_for_column(const ManyChunk& chunk, std::int64_t column) {
  const WeightsPlace next = P::place(chunk.b, column, chunk.at + P::chunk);
  for (std::int64_t i = 0; i < P::code_bytes; i += 64) prefetch_line(next.codes, i);
  prefetch_line(next.scales, 0);
}

/// How many columns at a time when Cols are too many: four, two, one.
constexpr int fewer_columns(int cols) { return cols > 4 ? 4 : cols / 2; }

/// All columns from `column` on, as many at a time as there are yet.
template <class P, int Vectors, int Cols>
inline void multiply_columns(const ManyChunk& chunk, ManyRows rows, std::int64_t column,
                             const typename P::Column* columns, float* sums) {
  for (; column + Cols <= chunk.cols; column += Cols) {
    if (rows.first)
      for (int c = 0; c < Cols; ++c) ask_for_column<P>(chunk, column + c);
    P::template block<Vectors, Cols>(rows.x, rows.width, columns + column, chunk.count, rows.ahead,
                                     sums + column * many_shape.rows);
    rows.ahead += P::ahead_bytes(chunk.count);
  }
  if constexpr (Cols > 1)
    multiply_columns<P, Vectors, fewer_columns(Cols)>(chunk, rows, column, columns, sums);
}

/// Element `at` of the group that begins with `row`.
template <class P>
inline const float* chunk_of_rows(const MatmulProduct& product, std::int64_t row, std::int64_t at) {
  return static_cast<const float*>(product.prepared) + row * prepared_words<P>(product.k) +
         P::words(at) * group_width<P>(row, product.m);
}

/// All rows of a tile in a chunk.
template <class P>
inline void multiply_chunk(const MatmulProduct& product, const MatmulTile& tile,
                           const ManyChunk& chunk, const typename P::Column* columns, float* sums) {
  for (std::int64_t r = 0; r < tile.rows; r += P::vectors * lanes) {
    const std::int64_t row = tile.row + r, next = row + P::vectors * lanes;
    const bool last = next >= tile.row + tile.rows;  // then the next chunk's first group follows
    const float* const ahead = last ? chunk_of_rows<P>(product, tile.row, chunk.at + P::chunk)
                                    : chunk_of_rows<P>(product, next, chunk.at);
    ManyRows rows{chunk_of_rows<P>(product, row, chunk.at), group_width<P>(row, product.m),
                  reinterpret_cast<const char*>(ahead), r == 0};
    if (rows.width == P::vectors * lanes) {
      multiply_columns<P, P::vectors, P::cols>(chunk, rows, 0, columns, sums + r);
      continue;
    }
    for (std::int64_t done = 0; done < rows.width; done += lanes, rows.x += lanes)
      multiply_columns<P, 1, P::cols>(chunk, rows, 0, columns, sums + r + done);
  }
}

/// sums * factor + bias to where they belong.
inline void store_sums(const MatmulProduct& product, const MatmulTile& tile, const float* sums,
                       double factor) {
  for (std::int64_t r = 0; r < tile.rows; ++r) {
    float* output = tile.output + r * tile.output_stride;
    for (std::int64_t c = 0; c < tile.cols; ++c) {
      const double bias = product.bias ? static_cast<double>(product.bias[tile.col + c]) : 0.0;
      output[c] =
          static_cast<float>(static_cast<double>(sums[c * many_shape.rows + r]) * factor + bias);
    }
  }
}

/// `factor`: what all sums have to be multiplied by.
template <class P>
void multiply_many(const MatmulProduct& product, const MatmulTile& tile, double factor) {
  static_assert(P::chunk % P::step == 0);
  const ManyMemory<P> memory(tile.workspace);
  const std::int64_t k = product.k, together = tile.rows <= few_rows ? P::cols : tile.cols,
                     span = rounded_up(few_words / tile.rows, P::chunk);
  for (std::int64_t i = 0; i < tile.cols * many_shape.rows; ++i) memory.sums[i] = 0.0f;
  for (std::int64_t begin = 0; begin < k; begin += span)
    for (std::int64_t c = 0; c < tile.cols; c += together)
      for (std::int64_t at = begin; at < k && at < begin + span; at += P::chunk) {
        const std::int64_t valid = k - at < P::chunk ? k - at : P::chunk;
        const ManyChunk chunk{tile.b.from(c), tile.cols - c < together ? tile.cols - c : together,
                              at, rounded_up(valid, P::step)};
        for (std::int64_t i = 0; i < chunk.cols; ++i)
          P::decode(P::place(chunk.b, i, at), valid, memory.columns[i]);
        multiply_chunk<P>(product, tile, chunk, memory.columns, memory.sums + c * many_shape.rows);
      }
  store_sums(product, tile, memory.sums, factor);
}

/// total to the sums of Vectors vectors of rows and Cols columns.
template <int Vectors, int Cols>
[[gnu::always_inline]] inline void add_to_sums(const Float (&total)[Vectors * Cols], float* sums) {
  MICROSCALE_UNROLL
  for (int c = 0; c < Cols; ++c) {
    MICROSCALE_UNROLL
    for (int v = 0; v < Vectors; ++v) {
      float* const sum = sums + c * many_shape.rows + v * lanes;
      store_float(sum, add(load_float(sum), total[c * Vectors + v]));
    }
  }
}
