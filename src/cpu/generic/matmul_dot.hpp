// Matrix products as dot products: codes of b are decoded into FP32 vectors in registers, each
// multiplied by the same elements of up to `most_rows` rows of a, which lie in memory in the order
// in which codes decode. A block's products are summed first and its scale comes after, so no scale
// can overflow or round a weight. Included inside a target region (cpu/target_region.hpp).
//
// A decoder B turns `elements` elements of a row, a step, into `vectors` vectors:
//   load(codes), load_scales(scales)     one step of a row
//   vector(codes, i)                     the i-th vector; its place l is element B::element(i, l)
//   start(v, x), add(v, x, sum)          its product with `width` elements X of a, and a sum's next
//   scale(scales, g)                     lanewise, of the g-th group of vectors / groups vectors
//   factor                               by which all results must be multiplied yet
//   by_panel                             whether decoding costs more than reading what was decoded
// Each sum is taken in an order that depends on k alone: a row of d has the same bytes whatever the
// number of rows and columns.

/// start and add for decoders into FP32.
struct Fp32Products {
  using X = float;
  static constexpr int width = lanes;
  static Float start(Float v, const X* x) { return mul(v, load_float(x)); }
  static Float add(Float v, const X* x, Float sum) { return fma(v, load_float(x), sum); }
  /// The elements of one row in the order of the vectors; false where X cannot hold one.
  static bool convert(const float* values, X* output) {
    *output = *values;
    return true;
  }
};

/// One or more rows of prepared a and of b, from one step on.
template <class X>
struct DotRows {
  const X* x;  // row r at x + r * x_stride
  std::int64_t x_stride;
  const std::uint8_t* codes;  // row c at codes + c * code_stride
  std::int64_t code_stride;
  const std::uint8_t* scales;
  std::int64_t scale_stride;
};

/// How far ahead of its reads the kernel asks for codes and scales, in bytes of a row; at the end
/// of a row, of the row that comes after those now read.
inline constexpr int weights_ahead = 1024, scales_ahead = 192;

/// Asks for the line `ahead` bytes behind p, wherever that is.
inline void prefetch_line(const std::uint8_t* p, std::int64_t ahead) {
  const auto address = reinterpret_cast<std::uintptr_t>(p) + static_cast<std::uintptr_t>(ahead);
  _mm_prefetch(reinterpret_cast<const char*>(address), _MM_HINT_T0);
}

/// Adds a step's Rows x Cols products to total[r * Apart + c]. A Step has vector(i) and scale(g) of
/// one row of the weights.
template <class B, int Rows, int Cols, int Apart, class Step>
[[gnu::always_inline]] inline void add_step(const Step (&step)[Cols], const typename B::X* x,
                                            std::int64_t x_stride, Float* total) {
  constexpr int together = B::vectors / B::groups;
  MICROSCALE_UNROLL
  for (int g = 0; g < B::groups; ++g) {
    Float partial[Rows * Cols];
    MICROSCALE_UNROLL
    for (int i = 0; i < together; ++i) {
      MICROSCALE_UNROLL
      for (int c = 0; c < Cols; ++c) {
        const auto v = step[c].vector(g * together + i);
        MICROSCALE_UNROLL
        for (int r = 0; r < Rows; ++r) {
          const typename B::X* e = x + r * x_stride + (g * together + i) * B::width;
          Float& sum = partial[r * Cols + c];
          sum = i == 0 ? B::start(v, e) : B::add(v, e, sum);
        }
      }
    }
    MICROSCALE_UNROLL
    for (int c = 0; c < Cols; ++c) {
      const Float scale = step[c].scale(g);
      MICROSCALE_UNROLL
      for (int r = 0; r < Rows; ++r)
        total[r * Apart + c] = fma(partial[r * Cols + c], scale, total[r * Apart + c]);
    }
  }
}

/// A step of weights as they lie in memory.
template <class B>
struct CodedStep {
  typename B::Codes codes;
  typename B::Scales scales;
  auto vector(int i) const { return B::vector(codes, i); }
  Float scale(int g) const { return B::scale(scales, g); }
};

/// Adds `steps` steps of Rows x Cols dot products to sums[r * sum_stride + c].
template <class B, int Rows, int Cols>
inline void dot_steps(const DotRows<typename B::X>& at, std::int64_t steps, Float* sums,
                      std::int64_t sum_stride) {
  Float total[Rows * Cols];
  MICROSCALE_UNROLL
  for (int i = 0; i < Rows * Cols; ++i) total[i] = sums[i / Cols * sum_stride + i % Cols];
  const typename B::X* x = at.x;
  const std::uint8_t *codes = at.codes, *scales = at.scales;
  constexpr std::int64_t steps_ahead = weights_ahead / B::code_bytes;
  const std::int64_t next_rows = Cols * at.code_stride - steps * B::code_bytes;
  for (std::int64_t s = 0; s < steps; ++s) {
    const std::int64_t ahead = weights_ahead + (s + steps_ahead >= steps ? next_rows : 0);
    MICROSCALE_UNROLL
    for (int c = 0; c < Cols; ++c) {
      const std::uint8_t* row = codes + c * at.code_stride;
      prefetch_line(row, ahead);
      prefetch_line(scales + c * at.scale_stride, scales_ahead);
      const CodedStep<B> step[1] = {{B::load(row), B::load_scales(scales + c * at.scale_stride)}};
      add_step<B, Rows, 1, Cols>(step, x, at.x_stride, total + c);
    }
    x += B::elements;
    codes += B::code_bytes;
    scales += B::scale_bytes;
  }
  MICROSCALE_UNROLL
  for (int i = 0; i < Rows * Cols; ++i) sums[i / Cols * sum_stride + i % Cols] = total[i];
}

/// All columns of a tile for Rows rows.
template <class B, int Rows, int Cols>
inline void dot_columns(DotRows<typename B::X> at, std::int64_t steps, std::int64_t cols,
                        Float* sums, std::int64_t sum_stride) {
  std::int64_t c = 0;
  for (; c + Cols <= cols; c += Cols) {
    dot_steps<B, Rows, Cols>(at, steps, sums + c, sum_stride);
    at.codes += Cols * at.code_stride;
    at.scales += Cols * at.scale_stride;
  }
  for (; c < cols; ++c) {
    dot_steps<B, Rows, 1>(at, steps, sums + c, sum_stride);
    at.codes += at.code_stride;
    at.scales += at.scale_stride;
  }
}

template <class B>
inline void dot_tile(DotRows<typename B::X> at, std::int64_t steps, std::int64_t rows,
                     std::int64_t cols, Float* sums) {
  std::int64_t r = 0;
  for (; r + most_rows <= rows; r += most_rows, at.x += most_rows * at.x_stride)
    dot_columns<B, most_rows, 1>(at, steps, cols, sums + r * cols, cols);
  if constexpr (most_rows > 4)
    for (; r + 4 <= rows; r += 4, at.x += 4 * at.x_stride)
      dot_columns<B, 4, 1>(at, steps, cols, sums + r * cols, cols);
  for (; r + 2 <= rows; r += 2, at.x += 2 * at.x_stride)
    dot_columns<B, 2, 2>(at, steps, cols, sums + r * cols, cols);
  for (; r < rows; ++r, at.x += at.x_stride)
    dot_columns<B, 1, 4>(at, steps, cols, sums + r * cols, cols);
}

/// Steps of k that are done for all rows of a tile before the next: their part of a stays in the
/// first-level cache. With few rows, all.
inline constexpr std::int64_t steps_at_once = 1024 * 4 / vector_bytes / 8;

inline constexpr MatmulTileShape dot_tile_shape{64, 64};

// Where a tile has many rows and decoding costs much (B::by_panel), weights are decoded once for
// all of them: steps_at_once steps of all columns, which stay in the second-level cache. A step is
// B::vectors vectors, then its scales.

inline constexpr std::int64_t panel_least_rows = 32, panel_most_vectors = 12;  // of a step
template <class B>
inline constexpr std::int64_t panel_vectors = B::vectors + B::groups;

/// A step of decoded weights.
template <class B>
struct PanelStep {
  const Float* at;
  Float vector(int i) const { return at[i]; }
  Float scale(int g) const { return at[B::vectors + g]; }
};

template <class B>
inline void decode_panel(const DotRows<typename B::X>& at, std::int64_t steps, std::int64_t cols,
                         Float* panel) {
  static_assert(panel_vectors<B> <= panel_most_vectors);
  for (std::int64_t c = 0; c < cols; ++c) {
    const std::uint8_t *codes = at.codes + c * at.code_stride,
                       *scales = at.scales + c * at.scale_stride;
    for (std::int64_t s = 0; s < steps; ++s, panel += panel_vectors<B>) {
      const CodedStep<B> step{B::load(codes + s * B::code_bytes),
                              B::load_scales(scales + s * B::scale_bytes)};
      MICROSCALE_UNROLL
      for (int i = 0; i < B::vectors; ++i) panel[i] = step.vector(i);
      MICROSCALE_UNROLL
      for (int g = 0; g < B::groups; ++g) panel[B::vectors + g] = step.scale(g);
    }
  }
}

/// Adds `steps` steps of Rows x Cols dot products, of columns `apart` vectors apart.
template <class B, int Rows, int Cols>
inline void panel_block(const typename B::X* x, std::int64_t x_stride, const Float* panel,
                        std::int64_t apart, std::int64_t steps, Float* sums,
                        std::int64_t sum_stride) {
  Float total[Rows * Cols];
  MICROSCALE_UNROLL
  for (int i = 0; i < Rows * Cols; ++i) total[i] = sums[i / Cols * sum_stride + i % Cols];
  for (std::int64_t s = 0; s < steps; ++s, x += B::elements, panel += panel_vectors<B>) {
    PanelStep<B> step[Cols];
    MICROSCALE_UNROLL
    for (int c = 0; c < Cols; ++c) step[c].at = panel + c * apart;
    add_step<B, Rows, Cols, Cols>(step, x, x_stride, total);
  }
  MICROSCALE_UNROLL
  for (int i = 0; i < Rows * Cols; ++i) sums[i / Cols * sum_stride + i % Cols] = total[i];
}

/// All columns of a tile for panel_rows rows.
template <class B>
inline void panel_columns(const typename B::X* x, std::int64_t x_stride, const Float* panel,
                          std::int64_t steps, std::int64_t cols, Float* sums) {
  const std::int64_t apart = steps * panel_vectors<B>;
  std::int64_t c = 0;
  for (; c + panel_cols <= cols; c += panel_cols)
    panel_block<B, panel_rows, panel_cols>(x, x_stride, panel + c * apart, apart, steps, sums + c,
                                           cols);
  for (; c < cols; ++c)
    panel_block<B, panel_rows, 1>(x, x_stride, panel + c * apart, apart, steps, sums + c, cols);
}

inline std::int64_t dot_sums(std::int64_t rows) {
  return (rows < dot_tile_shape.rows ? rows : dot_tile_shape.rows) * dot_tile_shape.cols;
}

/// Bytes that multiply_dot keeps: sums, and decoded weights.
inline std::int64_t dot_workspace(const MatmulProduct& product) {
  const std::int64_t panel =
      product.m < panel_least_rows ? 0 : dot_tile_shape.cols * steps_at_once * panel_most_vectors;
  return (dot_sums(product.m) + panel) * vector_bytes;
}

template <class B>
inline std::int64_t steps_of(std::int64_t k) {
  return (k + B::elements - 1) / B::elements;
}

template <class B>
void multiply_dot(const MatmulProduct& product, const MatmulTile& tile) {
  const std::int64_t k = product.k, whole = k / B::elements, rest = k % B::elements,
                     x_stride = steps_of<B>(k) * B::elements;
  Float* sums = static_cast<Float*>(tile.workspace);
  for (std::int64_t i = 0; i < tile.rows * tile.cols; ++i) sums[i] = as_float(zero());
  using X = typename B::X;
  const X* x = static_cast<const X*>(product.prepared) + tile.row * x_stride;
  const std::int64_t chunk = tile.rows > most_rows ? steps_at_once : whole;
  for (std::int64_t s = 0; s < whole; s += chunk) {
    const std::int64_t count = whole - s < chunk ? whole - s : chunk;
    DotRows<X> at{x + s * B::elements,
                  x_stride,
                  tile.b.data + s * B::code_bytes,
                  tile.b.stride,
                  tile.b.scales + s * B::scale_bytes,
                  tile.b.scale_stride};
    std::int64_t row = 0;
    if constexpr (B::by_panel) {
      if (tile.rows >= panel_least_rows) {
        Float* const panel = sums + dot_sums(product.m);
        decode_panel<B>(at, count, tile.cols, panel);
        for (; row + panel_rows <= tile.rows; row += panel_rows, at.x += panel_rows * x_stride)
          panel_columns<B>(at.x, x_stride, panel, count, tile.cols, sums + row * tile.cols);
      }
    }
    dot_tile<B>(at, count, tile.rows - row, tile.cols, sums + row * tile.cols);
  }
  if (rest > 0) {  // an incomplete step, filled up with zeros
    alignas(64) std::uint8_t codes[B::code_bytes], scales[B::scale_bytes];
    for (std::int64_t c = 0; c < tile.cols; ++c) {
      __builtin_memset(codes, 0, B::code_bytes);
      __builtin_memset(scales, 0, B::scale_bytes);
      __builtin_memcpy(codes, tile.b.data + c * tile.b.stride + whole * B::code_bytes,
                       static_cast<std::size_t>(rest * B::code_bytes / B::elements));
      __builtin_memcpy(scales, tile.b.scales + c * tile.b.scale_stride + whole * B::scale_bytes,
                       static_cast<std::size_t>(rest * B::scale_bytes / B::elements));
      for (std::int64_t r = 0; r < tile.rows; ++r)
        dot_steps<B, 1, 1>({x + r * x_stride + whole * B::elements, x_stride, codes, 0, scales, 0},
                           1, sums + r * tile.cols + c, tile.cols);
    }
  }
  const double factor = product.factor * B::factor;
  for (std::int64_t r = 0; r < tile.rows; ++r) {
    for (std::int64_t c = 0; c < tile.cols; ++c) {
      const double bias = product.bias ? static_cast<double>(product.bias[tile.col + c]) : 0.0;
      const double sum = static_cast<double>(sum_lanes(sums[r * tile.cols + c]));
      tile.output[r * tile.output_stride + c] = static_cast<float>(sum * factor + bias);
    }
  }
}

/// Rows of a in the order of B's vectors, zeros behind k.
template <class B>
void prepare_dot(const MatmulProduct& product, std::int64_t first, std::int64_t count,
                 void* prepared, std::uint8_t* odd) {
  const std::int64_t k = product.k, steps = steps_of<B>(k), x_stride = steps * B::elements;
  for (std::int64_t r = first; r < first + count; ++r) {
    auto* output = static_cast<typename B::X*>(prepared) + r * x_stride;
    bool inside = true;
    for (std::int64_t s = 0; s < steps; ++s, output += B::elements) {
      alignas(64) float values[B::elements];
      const std::int64_t at = s * B::elements, valid = k - at < B::elements ? k - at : B::elements;
      inside &= cpu::row_to_floats(product.a, r, at, valid, values);
      for (std::int64_t i = valid; i < B::elements; ++i) values[i] = 0.0f;
      for (int i = 0; i < B::vectors; ++i)
        for (int l = 0; l < B::width; ++l)
          inside &= B::convert(values + B::element(i, l), output + i * B::width + l);
    }
    odd[r] = inside ? 0 : 1;
  }
}

/// What a term goes through: its block's sum, then one addition per group and step, then the lanes.
template <class B>
inline std::int64_t dot_roundings(std::int64_t k) {
  return B::vectors / B::groups + B::groups * steps_of<B>(k) + 6;
}

template <DType Type>
inline void store_floats(const float* values, std::int64_t count, std::uint8_t* output) {
  constexpr std::int64_t pair = 2 * lanes, bytes = Type == DType::f32 ? 4 : 2;
  std::int64_t i = 0;
  for (; i + pair <= count; i += pair)
    put_pair<Type>(output + i * bytes, load_float(values + i), load_float(values + i + lanes),
                   false);
  if (i == count) return;
  alignas(64) float last[pair] = {};
  alignas(64) std::uint8_t converted[pair * 4];
  __builtin_memcpy(last, values + i, static_cast<std::size_t>(count - i) * 4);
  put_pair<Type>(converted, load_float(last), load_float(last + lanes), false);
  __builtin_memcpy(output + i * bytes, converted, static_cast<std::size_t>((count - i) * bytes));
}

inline void store_values(const float* values, std::int64_t count, DType type, void* output) {
  auto* bytes = static_cast<std::uint8_t*>(output);
  if (type == DType::bf16) return store_floats<DType::bf16>(values, count, bytes);
  if (type == DType::f16) return store_floats<DType::f16>(values, count, bytes);
  store_floats<DType::f32>(values, count, bytes);
}
