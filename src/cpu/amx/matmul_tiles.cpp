// Matrix products on AMX tiles. Weights, expanded to BF16 with their scales, are the left operand:
// a row of a tile is 32 elements of one row, as they decode. Rows of a are the right operand,
// prepared once per call: pairs of elements of 16 rows beside each other. So results come
// transposed, 16 columns of d down a tile, and are turned on the way out.
//
// FP4 decodes 128 elements at a time into an order of its own; the elements of a follow the same
// order.
//
//   for each chunk of k:          its part of a, for up to 512 rows, stays in the second-level
//   cache
//     for each 32 columns of d:   their weights, expanded once for all rows, in the first
//       for each 32 rows of a:    2 x 2 tiles of sums, loaded, a chunk longer, and stored
//
// Tile instructions leave the vector units idle. So the next panel of weights is expanded a piece
// at a time between steps (matmul_panels.hpp), and what comes from memory is asked for beside them.
// Rows of a and sums are loaded with the hint that leaves the first-level cache to the weights.
#include "cpu/amx/kernels.hpp"
#include "cpu/avx512/vector.hpp"
#include "cpu/matmul_rows.hpp"
#include "cpu/runs.hpp"

#include <type_traits>

MICROSCALE_AMX_BEGIN
using namespace microscale::avx512;
#include "cpu/generic/dense.hpp"
#include "cpu/avx512/lookup.hpp"
#include "cpu/generic/dequantize_mxfp8.hpp"
#include "cpu/avx512/matmul_scales.hpp"
#include "cpu/amx/expand.hpp"
#include "cpu/amx/matmul_panels.hpp"

/// All eight tiles 16 rows of 64 bytes.
struct alignas(64) TileConfig {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
inline constexpr TileConfig tile_config{};

/// The compiler must have stored what tiles load: the intrinsics do not tell it.
inline void finish_stores() { __atomic_signal_fence(__ATOMIC_SEQ_CST); }

/// Two tiles of columns times one or two of rows. c: tile (column i, row j) at c + (i * c_columns +
/// j) tiles; x: of row j at x + j * x_stride bytes. Beside: what is done between steps.
template <class Beside>
inline void multiply_pair(const std::uint8_t* panel, const std::uint8_t* x, std::int64_t x_stride,
                          std::uint8_t* c, std::int64_t c_columns, std::int64_t steps,
                          Beside& beside) {
  std::uint8_t* const second = c + c_columns * tile_bytes;
  _tile_stream_loadd(0, c, tile_stride);
  _tile_stream_loadd(1, c + tile_bytes, tile_stride);
  _tile_stream_loadd(2, second, tile_stride);
  _tile_stream_loadd(3, second + tile_bytes, tile_stride);
  for (std::int64_t s = 0; s < steps; ++s) {
    _tile_loadd(4, panel + s * tile_bytes, tile_stride);
    _tile_stream_loadd(6, x + s * tile_bytes, tile_stride);
    _tile_dpbf16ps(0, 4, 6);
    _tile_stream_loadd(7, x + x_stride + s * tile_bytes, tile_stride);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, panel + (steps + s) * tile_bytes, tile_stride);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
    beside.step();
  }
  _tile_stored(0, c, tile_stride);
  _tile_stored(1, c + tile_bytes, tile_stride);
  _tile_stored(2, second, tile_stride);
  _tile_stored(3, second + tile_bytes, tile_stride);
}

template <class Beside>
inline void multiply_single(const std::uint8_t* panel, const std::uint8_t* x, std::uint8_t* c,
                            std::int64_t c_columns, std::int64_t steps, Beside& beside) {
  std::uint8_t* const second = c + c_columns * tile_bytes;
  _tile_stream_loadd(0, c, tile_stride);
  _tile_stream_loadd(2, second, tile_stride);
  for (std::int64_t s = 0; s < steps; ++s) {
    _tile_loadd(4, panel + s * tile_bytes, tile_stride);
    _tile_stream_loadd(6, x + s * tile_bytes, tile_stride);
    _tile_loadd(5, panel + (steps + s) * tile_bytes, tile_stride);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(2, 5, 6);
    beside.step();
  }
  _tile_stored(0, c, tile_stride);
  _tile_stored(2, second, tile_stride);
}

/// Sixteen rows of results from one tile of sums: row i of the tile is column i of d.
inline void write_results(const MatmulProduct& product, const MatmulTile& tile,
                          const std::uint8_t* c, std::int64_t col, std::int64_t row) {
  Int v[16];
  for (int i = 0; i < 16; ++i) v[i] = load(c + i * 64);
  transpose16(v);
  const std::int64_t columns = tile.cols - col < tile_side ? tile.cols - col : tile_side;
  const auto mask = static_cast<__mmask16>((1u << columns) - 1);
  const auto* factors = reinterpret_cast<const float*>(
      static_cast<const std::uint8_t*>(product.prepared) + factor_offset(product.m, product.k));
  Float bias = as_float(zero());
  if (product.bias) bias = _mm512_maskz_loadu_ps(mask, product.bias + tile.col + col);
  const __m512d low_bias = _mm512_cvtps_pd(_mm512_castps512_ps256(bias)),
                high_bias = _mm512_cvtps_pd(_mm512_extractf32x8_ps(bias, 1));
  for (std::int64_t r = 0; r < tile_side && row + r < tile.rows; ++r) {
    const Float sums = as_float(v[r]);
    const __m512d factor =
        _mm512_set1_pd(product.factor * static_cast<double>(factors[tile.row + row + r]));
    const __m512d low = _mm512_cvtps_pd(_mm512_castps512_ps256(sums)),
                  high = _mm512_cvtps_pd(_mm512_extractf32x8_ps(sums, 1));
    const __m256 a = _mm512_cvtpd_ps(_mm512_add_pd(_mm512_mul_pd(low, factor), low_bias)),
                 b = _mm512_cvtpd_ps(_mm512_add_pd(_mm512_mul_pd(high, factor), high_bias));
    _mm512_mask_storeu_ps(tile.output + (row + r) * tile.output_stride + col, mask,
                          _mm512_insertf32x8(_mm512_castps256_ps512(a), b, 1));
  }
}

template <Format From>
void multiply_panels(const MatmulProduct& product, const MatmulTile& tile) {
  const std::int64_t row_tiles = (tile.rows + tile_side - 1) / tile_side,
                     panels = (tile.cols + panel_columns - 1) / panel_columns;
  const auto* x = static_cast<const std::uint8_t*>(product.prepared);
  auto* panel = static_cast<std::uint8_t*>(tile.workspace);
  std::uint8_t *other = panel + panel_bytes, *const c = other + panel_bytes;
  __builtin_memset(c, 0, static_cast<std::size_t>(2 * panels * row_tiles * tile_bytes));
  const Panels<From> order(tile, product);
  _tile_loadconfig(&tile_config);
  Panel now = order.first();
  Expansion<From>(order, now, panel).expand(Panels<From>::units(now));
  while (now.steps > 0) {
    finish_stores();
    const Panel next = order.after(now);
    const std::int64_t group_bytes = chunk_group_bytes(product.m, product.k, now.at),
                       number = now.col / panel_columns, first_row = tile.row / tile_side,
                       lines = row_tiles * group_bytes / 64 / panels;  // of the next chunk of a
    const std::uint8_t* rows = x + chunk_offset(product.m, now.at) + first_row * group_bytes;
    WorkBeside<From> beside(order, next, other, (row_tiles + 1) / 2 * now.steps,
                            x + chunk_offset(product.m, now.at + now.steps * step) +
                                first_row * group_bytes + number * lines * 64,
                            lines);
    std::uint8_t* sums = c + 2 * number * row_tiles * tile_bytes;
    std::int64_t t = 0;
    for (; t + 2 <= row_tiles; t += 2)
      multiply_pair(panel, rows + t * group_bytes, group_bytes, sums + t * tile_bytes, row_tiles,
                    now.steps, beside);
    if (t < row_tiles)
      multiply_single(panel, rows + t * group_bytes, sums + t * tile_bytes, row_tiles, now.steps,
                      beside);
    now = next;
    std::uint8_t* const used = panel;
    panel = other;
    other = used;
  }
  _tile_release();
  finish_stores();
  for (std::int64_t i = 0; i < 2 * panels && i * tile_side < tile.cols; ++i)
    for (std::int64_t t = 0; t < row_tiles; ++t)
      write_results(product, tile, c + (i * row_tiles + t) * tile_bytes, i * tile_side,
                    t * tile_side);
}

void multiply_tiles(const MatmulProduct& product, const MatmulTile& tile) {
  switch (product.b_format) {
    case Format::nvfp4:
      return multiply_panels<Format::nvfp4>(product, tile);
    case Format::mxfp4:
      return multiply_panels<Format::mxfp4>(product, tile);
    case Format::mxfp8_e4m3:
      return multiply_panels<Format::mxfp8_e4m3>(product, tile);
    default:
      return multiply_panels<Format::mxfp8_e5m2>(product, tile);
  }
}

std::int64_t tile_workspace(const MatmulProduct& product) {
  const std::int64_t rows = product.m < most_tile_rows ? product.m : most_tile_rows;
  const std::int64_t tiles = (rows + tile_side - 1) / tile_side * (most_tile_columns / tile_side);
  return 2 * panel_bytes + tiles * tile_bytes;
}

#include "cpu/generic/matmul_range.hpp"

bool fits_bf16(const MatmulRows& b, std::int64_t n, std::int64_t k) {
  return rows_in_range(b, n, k);
}
MICROSCALE_AMX_END
