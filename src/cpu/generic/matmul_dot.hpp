// Matrix products of few rows as dot products: codes of b are decoded into FP32 vectors in
// registers, each multiplied by the same elements of up to dot_rows rows of a, which lie in
// memory in the order in which codes decode. A block's products are summed first and its scale
// comes after, so no scale can overflow or round a weight. Included inside a target region
// (cpu/target_region.hpp), after decode_run.hpp.
//
// Each sum is taken in an order that depends on k alone: a row of d has the same bytes whatever the
// number of rows and columns.

/// One or more rows of prepared a and of b, from one step on.
struct DotRows {
  const float* x;  // row r at x + r * x_stride
  std::int64_t x_stride;
  const std::uint8_t* codes;  // row c at codes + c * code_stride
  std::int64_t code_stride;
  const std::uint8_t* scales;
  std::int64_t scale_stride;
};

/// How far ahead of its reads the kernel asks for codes and scales, in bytes of a row; at the end
/// of a row, of the row that comes after those now read.
inline constexpr int weights_ahead = 1024, scales_ahead = 192;

/// Rows and columns that are multiplied together: so many rows share a decoded vector, so many
/// columns their part of a while it is in the first-level cache.
inline constexpr int dot_rows = 4, dot_cols = 4;

/// Adds a step's products of Rows rows and one column to total[r * Apart].
template <class B, int Rows, int Apart, class Codes>
[[gnu::always_inline]] inline void add_step(const Codes& codes, const typename B::Scales& scales,
                                            const float* x, std::int64_t x_stride, Float* total) {
  constexpr int together = B::vectors / B::groups;
  MICROSCALE_UNROLL
  for (int g = 0; g < B::groups; ++g) {
    Float partial[Rows];
    MICROSCALE_UNROLL
    for (int i = 0; i < together; ++i) {
      const Float v = B::vector(codes, g * together + i);
      MICROSCALE_UNROLL
      for (int r = 0; r < Rows; ++r) {
        const Float e = load_float(x + r * x_stride + (g * together + i) * lanes);
        partial[r] = i == 0 ? mul(v, e) : fma(v, e, partial[r]);
      }
    }
    const Float scale = B::scale(scales, g);
    MICROSCALE_UNROLL
    for (int r = 0; r < Rows; ++r) total[r * Apart] = fma(partial[r], scale, total[r * Apart]);
  }
}

/// Adds the products of Steps steps, behind which there is another one in each row if `Inside`.
template <class B, int Rows, int Cols, int Steps, bool Inside>
[[gnu::always_inline]] inline void add_steps(const DotRows& at, std::int64_t step,
                                             std::int64_t ahead, Float* total) {
  MICROSCALE_UNROLL
  for (int c = 0; c < Cols; ++c) {
    const std::uint8_t *codes = at.codes + c * at.code_stride + step * B::code_bytes,
                       *scales = at.scales + c * at.scale_stride + step * B::scale_bytes;
    prefetch_line(scales, scales_ahead);
    typename B::Scales q[Steps];
    if constexpr (Steps == 2 && requires { B::load_two_scales(scales, q); })
      B::load_two_scales(scales, q);
    else
      for (int i = 0; i < Steps; ++i) q[i] = B::load_scales(scales + i * B::scale_bytes);
    MICROSCALE_UNROLL
    for (int i = 0; i < Steps; ++i) {
      const std::uint8_t* p = codes + i * B::code_bytes;
      const float* x = at.x + (step + i) * B::elements;
      prefetch_line(p, ahead);
      if constexpr (Inside && requires { B::load_inside(p); })
        add_step<B, Rows, Cols>(B::load_inside(p), q[i], x, at.x_stride, total + c);
      else
        add_step<B, Rows, Cols>(B::load(p), q[i], x, at.x_stride, total + c);
    }
  }
}

/// Adds `steps` steps of Rows x Cols dot products to sums[r * sum_stride + c].
template <class B, int Rows, int Cols>
inline void dot_steps(const DotRows& at, std::int64_t steps, Float* sums, std::int64_t sum_stride) {
  Float total[Rows * Cols];
  MICROSCALE_UNROLL
  for (int i = 0; i < Rows * Cols; ++i) total[i] = sums[i / Cols * sum_stride + i % Cols];
  // From here on weights_ahead bytes further is the row that comes after those now read.
  const std::int64_t turn = steps - weights_ahead / B::code_bytes,
                     next_rows = weights_ahead + Cols * at.code_stride - steps * B::code_bytes;
  std::int64_t s = 0;
  for (; s + 2 < steps; s += 2)
    add_steps<B, Rows, Cols, 2, true>(at, s, s < turn ? weights_ahead : next_rows, total);
  for (; s < steps; ++s)
    add_steps<B, Rows, Cols, 1, false>(at, s, s < turn ? weights_ahead : next_rows, total);
  MICROSCALE_UNROLL
  for (int i = 0; i < Rows * Cols; ++i) sums[i / Cols * sum_stride + i % Cols] = total[i];
}

/// All columns of a tile for Rows rows.
template <class B, int Rows>
inline void dot_columns(DotRows at, std::int64_t steps, std::int64_t cols, Float* sums) {
  std::int64_t c = 0;
  for (; c + dot_cols <= cols; c += dot_cols) {
    dot_steps<B, Rows, dot_cols>(at, steps, sums + c, cols);
    at.codes += dot_cols * at.code_stride;
    at.scales += dot_cols * at.scale_stride;
  }
  for (; c < cols; ++c) {
    dot_steps<B, Rows, 1>(at, steps, sums + c, cols);
    at.codes += at.code_stride;
    at.scales += at.scale_stride;
  }
}

template <class B>
inline void dot_tile(DotRows at, std::int64_t steps, std::int64_t rows, std::int64_t cols,
                     Float* sums) {
  std::int64_t r = 0;
  for (; r + dot_rows <= rows; r += dot_rows, at.x += dot_rows * at.x_stride)
    dot_columns<B, dot_rows>(at, steps, cols, sums + r * cols);
  switch (rows - r) {
    case 3:
      return dot_columns<B, 3>(at, steps, cols, sums + r * cols);
    case 2:
      return dot_columns<B, 2>(at, steps, cols, sums + r * cols);
    case 1:
      return dot_columns<B, 1>(at, steps, cols, sums + r * cols);
    default:
      return;
  }
}

/// Steps of k that are done for all rows of a tile before the next: their part of a stays in the
/// first-level cache. With few rows, all.
inline constexpr std::int64_t steps_at_once = 1024 * 4 / vector_bytes / 8;

inline constexpr MatmulTileShape dot_tile_shape{64, 64};

inline std::int64_t dot_sums(std::int64_t rows) {
  return (rows < dot_tile_shape.rows ? rows : dot_tile_shape.rows) * dot_tile_shape.cols;
}

template <class B>
inline std::int64_t steps_of(std::int64_t k) {
  return (k + B::elements - 1) / B::elements;
}

/// The last, incomplete step of each row, filled up with zeros: copies of a tile's columns, so that
/// rows and columns share what they read as in every other step.
template <class B>
inline void add_rest(const MatmulTile& tile, const float* x, std::int64_t x_stride,
                     std::int64_t whole, std::int64_t rest, Float* sums) {
  alignas(64) std::uint8_t codes[dot_tile_shape.cols * B::code_bytes],
      scales[dot_tile_shape.cols * B::scale_bytes];
  const std::int64_t cols = tile.cols, code_bytes = rest * B::code_bytes / B::elements,
                     scale_bytes = rest * B::scale_bytes / B::elements;
  __builtin_memset(codes, 0, static_cast<std::size_t>(cols * B::code_bytes));
  __builtin_memset(scales, 0, static_cast<std::size_t>(cols * B::scale_bytes));
  const std::uint8_t *from = tile.b.data + whole * B::code_bytes,
                     *scale = tile.b.scales + whole * B::scale_bytes;
  for (std::int64_t c = 0; c < cols; ++c, from += tile.b.stride, scale += tile.b.scale_stride) {
    __builtin_memcpy(codes + c * B::code_bytes, from, static_cast<std::size_t>(code_bytes));
    __builtin_memcpy(scales + c * B::scale_bytes, scale, static_cast<std::size_t>(scale_bytes));
  }
  dot_tile<B>({x, x_stride, codes, B::code_bytes, scales, B::scale_bytes}, 1, tile.rows, cols,
              sums);
}

template <class B>
void multiply_dot(const MatmulProduct& product, const MatmulTile& tile) {
  const std::int64_t k = product.k, whole = k / B::elements, rest = k % B::elements,
                     x_stride = steps_of<B>(k) * B::elements;
  Float* sums = static_cast<Float*>(tile.workspace);
  for (std::int64_t i = 0; i < tile.rows * tile.cols; ++i) sums[i] = as_float(zero());
  const float* x = static_cast<const float*>(product.prepared) + tile.row * x_stride;
  const std::int64_t chunk = tile.rows > dot_rows ? steps_at_once : whole;
  for (std::int64_t s = 0; s < whole; s += chunk) {
    const std::int64_t count = whole - s < chunk ? whole - s : chunk;
    DotRows at{x + s * B::elements,
               x_stride,
               tile.b.data + s * B::code_bytes,
               tile.b.stride,
               tile.b.scales + s * B::scale_bytes,
               tile.b.scale_stride};
    dot_tile<B>(at, count, tile.rows, tile.cols, sums);
  }
  if (rest > 0) add_rest<B>(tile, x + whole * B::elements, x_stride, whole, rest, sums);
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
    float* output = static_cast<float*>(prepared) + r * x_stride;
    bool inside = true;
    for (std::int64_t s = 0; s < steps; ++s, output += B::elements) {
      alignas(64) float values[B::elements];
      inside &= load_elements<B::elements>(product.a, r, s * B::elements, k, values);
      for (int i = 0; i < B::vectors; ++i)
        for (int l = 0; l < lanes; ++l) output[i * lanes + l] = values[B::element(i, l)];
    }
    odd[r] = inside ? 0 : 1;
  }
}

/// What a term goes through: its block's sum, then one addition per group and step, then the lanes.
template <class B>
inline std::int64_t dot_roundings(std::int64_t k) {
  return B::vectors / B::groups + B::groups * steps_of<B>(k) + 6;
}
