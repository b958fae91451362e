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
// Tile instructions leave the vector units idle. So the next panel of weights is expanded a few
// rows at a time between pairs of tiles, and what comes from memory is asked for beside them:
// weights a panel ahead, the next chunk of a line by line.
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

inline constexpr std::int64_t panel_columns = 2 * tile_side;
inline constexpr std::int64_t panel_bytes = 2 * chunk_steps * tile_bytes;
inline constexpr std::int64_t tile_stride = 64;  // bytes of a tile's row

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
  _tile_loadd(0, c, tile_stride);
  _tile_loadd(1, c + tile_bytes, tile_stride);
  _tile_loadd(2, second, tile_stride);
  _tile_loadd(3, second + tile_bytes, tile_stride);
  for (std::int64_t s = 0; s < steps; ++s) {
    _tile_loadd(4, panel + s * tile_bytes, tile_stride);
    _tile_loadd(6, x + s * tile_bytes, tile_stride);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, x + x_stride + s * tile_bytes, tile_stride);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, panel + (chunk_steps + s) * tile_bytes, tile_stride);
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
  _tile_loadd(0, c, tile_stride);
  _tile_loadd(2, second, tile_stride);
  for (std::int64_t s = 0; s < steps; ++s) {
    _tile_loadd(4, panel + s * tile_bytes, tile_stride);
    _tile_loadd(6, x + s * tile_bytes, tile_stride);
    _tile_loadd(5, panel + (chunk_steps + s) * tile_bytes, tile_stride);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(2, 5, 6);
    beside.step();
  }
  _tile_stored(0, c, tile_stride);
  _tile_stored(2, second, tile_stride);
}

/// The weights of 32 columns of a tile over a chunk of k.
struct Panel {
  std::int64_t col = 0, at = 0, steps = 0;  // steps 0: there is none
};

/// A unit of a panel, up to 128 elements of one column, into two rows of tiles; unit u is of column
/// u % 32.
template <Format From>
void expand_unit(const MatmulTile& tile, std::int64_t k, const Panel& p, std::int64_t unit,
                 std::uint8_t* panel) {
  const MatmulRows& b = tile.b;
  const std::int64_t c = unit % panel_columns, group = unit / panel_columns * group_vectors,
                     steps = p.steps - group < group_vectors ? p.steps - group : group_vectors,
                     at = p.at + group * step;
  std::uint8_t* output = panel + c / tile_side * (chunk_steps * tile_bytes) + group * tile_bytes +
                         c % tile_side * tile_stride;
  if (p.col + c >= tile.cols) {
    for (std::int64_t s = 0; s < steps; ++s) store(output + s * tile_bytes, zero());
    return;
  }
  const std::uint8_t *codes = b.data + (p.col + c) * b.stride,
                     *scales = b.scales + (p.col + c) * b.scale_stride;
  if constexpr (From == Format::mxfp8_e4m3 || From == Format::mxfp8_e5m2) {
    for (std::int64_t s = 0; s < steps; ++s)
      store(output + s * tile_bytes,
            expand_mxfp8<From>(codes + at + s * step, scales + at / 32 + s));
  } else {
    constexpr std::int64_t block = From == Format::nvfp4 ? 16 : 32;
    alignas(64) std::uint8_t rest[64], rest_scales[8];
    codes += at / 2;
    scales += at / block;
    if (k - at < group_elements) {  // filled up with zeros
      __builtin_memset(rest, 0, sizeof rest);
      __builtin_memset(rest_scales, 0, sizeof rest_scales);
      __builtin_memcpy(rest, codes, static_cast<std::size_t>((k - at) / 2));
      __builtin_memcpy(rest_scales, scales, static_cast<std::size_t>((k - at) / block));
      codes = rest;
      scales = rest_scales;
    }
    Int v[group_vectors];
    (From == Format::nvfp4 ? expand_nvfp4 : expand_mxfp4)(load(codes), scales, v);
    MICROSCALE_UNROLL
    for (int s = 0; s < group_vectors; ++s) store(output + s * tile_bytes, v[s]);
  }
}

/// The panels of a tile in the order in which they are multiplied, chunk by chunk.
template <Format From>
class Panels {
 public:
  Panels(const MatmulTile& tile, std::int64_t k)
      : tile_(tile), k_(k), depth_(fp4 ? padded(k) : k) {}  // groups of FP4 are whole

  Panel first() const { return sized({0, 0, 0}); }
  Panel after(const Panel& p) const {
    const bool last = p.col + panel_columns >= tile_.cols;
    return sized({last ? 0 : p.col + panel_columns, last ? p.at + chunk_steps * step : p.at, 0});
  }
  static std::int64_t units(const Panel& p) {
    return (p.steps + group_vectors - 1) / group_vectors * panel_columns;
  }
  void expand(const Panel& p, std::int64_t unit, std::uint8_t* panel) const {
    expand_unit<From>(tile_, k_, p, unit, panel);
  }
  /// Asks for a unit's weights.
  void ask(const Panel& p, std::int64_t unit) const {
    const std::int64_t c = p.col + unit % panel_columns,
                       at = p.at + unit / panel_columns * group_elements;
    if (p.steps <= 0 || c >= tile_.cols) return;
    const std::uint8_t* codes = tile_.b.data + c * tile_.b.stride + (fp4 ? at / 2 : at);
    _mm_prefetch(reinterpret_cast<const char*>(codes), _MM_HINT_T1);
    if (!fp4) _mm_prefetch(reinterpret_cast<const char*>(codes + 64), _MM_HINT_T1);
    _mm_prefetch(reinterpret_cast<const char*>(tile_.b.scales + c * tile_.b.scale_stride +
                                               at / (From == Format::nvfp4 ? 16 : 32)),
                 _MM_HINT_T1);
  }

 private:
  static constexpr bool fp4 = From == Format::nvfp4 || From == Format::mxfp4;

  Panel sized(Panel p) const {
    const std::int64_t left = (depth_ - p.at) / step;
    p.steps = left < chunk_steps ? left : chunk_steps;
    return p;
  }

  const MatmulTile& tile_;
  std::int64_t k_, depth_;
};

/// What is done beside the steps of a panel: the next one is expanded, the weights of the one after
/// that are asked for, and so are `lines` lines of a.
template <Format From>
class WorkBeside {
 public:
  WorkBeside(const Panels<From>& panels, const Panel& next, std::uint8_t* output,
             std::int64_t steps, const std::uint8_t* lines, std::int64_t count)
      : panels_(panels),
        next_(next),
        third_(panels.after(next)),
        output_(output),
        units_(next.steps > 0 ? Panels<From>::units(next) : 0),
        steps_(steps),
        lines_(lines),
        last_(lines + count * 64) {}

  void step() {
    for (due_ += units_; due_ >= steps_; due_ -= steps_, ++unit_) {
      panels_.expand(next_, unit_, output_);
      panels_.ask(third_, unit_);
    }
    for (int i = 0; i < 4 && lines_ < last_; ++i, lines_ += 64)
      _mm_prefetch(reinterpret_cast<const char*>(lines_), _MM_HINT_T1);
  }

 private:
  const Panels<From>& panels_;
  Panel next_, third_;
  std::uint8_t* output_;
  std::int64_t units_, steps_, unit_ = 0, due_ = 0;  // `due_` in units of 1 / steps_ units
  const std::uint8_t *lines_, *last_;
};

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
  const Panels<From> order(tile, product.k);
  _tile_loadconfig(&tile_config);
  Panel now = order.first();
  for (std::int64_t u = 0; u < Panels<From>::units(now); ++u) order.expand(now, u, panel);
  while (now.steps > 0) {
    finish_stores();
    const Panel next = order.after(now);
    const std::int64_t group_bytes = chunk_group_bytes(product.k, now.at),
                       number = now.col / panel_columns, first_row = tile.row / tile_side,
                       lines = row_tiles * group_bytes / 64 / panels;  // of the next chunk of a
    const std::uint8_t* rows = x + chunk_offset(product.m, now.at) + first_row * group_bytes;
    WorkBeside<From> beside(order, next, other, (row_tiles + 1) / 2 * now.steps,
                            x + chunk_offset(product.m, now.at + chunk_steps * step) +
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

/// Scale bytes of a format whose values are normal BF16 numbers with every code but zero.
struct ScaleRange {
  int first, last;
};
inline ScaleRange exact_scales(Format format) {
  if (format == Format::mxfp4) return {2, 252};        // 0.5 to 6
  if (format == Format::mxfp8_e4m3) return {10, 246};  // 2^-9 to 448
  return {17, 239};                                    // E5M2: 2^-16 to 57344
}

inline bool all_zero(const std::uint8_t* codes, Format format) {
  const int bytes = format == Format::mxfp4 ? 16 : 32, mask = format == Format::mxfp4 ? 0x77 : 0x7F;
  for (int i = 0; i < bytes; ++i)
    if (codes[i] & mask) return false;
  return true;
}

bool fits_bf16(const MatmulRows& b, std::int64_t n, std::int64_t k) {
  if (b.format == Format::nvfp4) return true;
  const ScaleRange range = exact_scales(b.format);
  const Int first = set8(range.first), width = set8(range.last - range.first);
  const std::int64_t blocks = k / 32, block_bytes = b.format == Format::mxfp4 ? 16 : 32;
  for (std::int64_t row = 0; row < n; ++row) {
    const std::uint8_t* scales = b.scales + row * b.scale_stride;
    for (std::int64_t i = 0; i < blocks; i += 64) {
      const std::int64_t valid = blocks - i < 64 ? blocks - i : 64;
      const __mmask64 mask = valid == 64 ? ~__mmask64{0} : (__mmask64{1} << valid) - 1;
      const Int bytes = _mm512_maskz_loadu_epi8(mask, scales + i);
      __mmask64 outside = mask & _mm512_cmpgt_epu8_mask(sub8(bytes, first), width) &
                          _mm512_cmpneq_epu8_mask(bytes, set8(255));
      for (; outside != 0; outside &= outside - 1) {
        const std::int64_t block = i + __builtin_ctzll(outside);
        if (!all_zero(b.data + row * b.stride + block * block_bytes, b.format)) return false;
      }
    }
  }
  return true;
}
MICROSCALE_AMX_END
