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
//     for each 32 columns of d:   their weights are expanded once, for all rows, into the first
//       for each 32 rows of a:    2 x 2 tiles of sums, loaded, a chunk longer, and stored
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

inline constexpr std::int64_t tile_bytes = 1024, tile_side = 16, step = 32;  // elements of k
inline constexpr std::int64_t chunk_steps = 8;
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
/// j) tiles; x: of row j at x + j * x_stride bytes.
inline void multiply_pair(const std::uint8_t* panel, const std::uint8_t* x, std::int64_t x_stride,
                          std::uint8_t* c, std::int64_t c_columns, std::int64_t steps) {
  std::uint8_t* const second = c + c_columns * tile_bytes;
  _tile_loadd(0, c, tile_stride);
  _tile_loadd(1, c + tile_bytes, tile_stride);
  _tile_loadd(2, second, tile_stride);
  _tile_loadd(3, second + tile_bytes, tile_stride);
  for (std::int64_t s = 0; s < steps; ++s) {
    _tile_loadd(4, panel + s * tile_bytes, tile_stride);
    _tile_loadd(6, x + s * tile_bytes, tile_stride);
    _tile_loadd(7, x + x_stride + s * tile_bytes, tile_stride);
    _tile_loadd(5, panel + (chunk_steps + s) * tile_bytes, tile_stride);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, c, tile_stride);
  _tile_stored(1, c + tile_bytes, tile_stride);
  _tile_stored(2, second, tile_stride);
  _tile_stored(3, second + tile_bytes, tile_stride);
}

inline void multiply_single(const std::uint8_t* panel, const std::uint8_t* x, std::uint8_t* c,
                            std::int64_t c_columns, std::int64_t steps) {
  std::uint8_t* const second = c + c_columns * tile_bytes;
  _tile_loadd(0, c, tile_stride);
  _tile_loadd(2, second, tile_stride);
  for (std::int64_t s = 0; s < steps; ++s) {
    _tile_loadd(4, panel + s * tile_bytes, tile_stride);
    _tile_loadd(6, x + s * tile_bytes, tile_stride);
    _tile_loadd(5, panel + (chunk_steps + s) * tile_bytes, tile_stride);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(2, 5, 6);
  }
  _tile_stored(0, c, tile_stride);
  _tile_stored(2, second, tile_stride);
}

/// Columns [col, col + 32) of the tile, elements [at, at + steps * 32), into two rows of tiles.
template <Format From>
void expand_panel(const MatmulTile& tile, std::int64_t k, std::int64_t col, std::int64_t at,
                  std::int64_t steps, std::uint8_t* panel) {
  const MatmulRows& b = tile.b;
  for (std::int64_t c = 0; c < panel_columns; ++c) {
    std::uint8_t* output = panel + c / tile_side * (chunk_steps * tile_bytes) + c % tile_side * 64;
    if (col + c >= tile.cols) {
      for (std::int64_t s = 0; s < steps; ++s) store(output + s * tile_bytes, zero());
      continue;
    }
    const std::uint8_t *codes = b.data + (col + c) * b.stride,
                       *scales = b.scales + (col + c) * b.scale_stride;
    if constexpr (From == Format::mxfp8_e4m3 || From == Format::mxfp8_e5m2) {
      for (std::int64_t s = 0; s < steps; ++s, output += tile_bytes)
        expand_mxfp8<From>(codes + at + s * step, scales + at / 32 + s, output);
    } else {
      constexpr std::int64_t block = From == Format::nvfp4 ? 16 : 32;
      for (std::int64_t from = at; from < at + steps * step; from += group_elements) {
        alignas(64) std::uint8_t last[64] = {}, last_scales[8] = {};
        const std::uint8_t *group = codes + from / 2, *group_scales = scales + from / block;
        if (k - from < group_elements) {  // filled up with zeros
          __builtin_memcpy(last, group, static_cast<std::size_t>((k - from) / 2));
          __builtin_memcpy(last_scales, group_scales, static_cast<std::size_t>((k - from) / block));
          group = last;
          group_scales = last_scales;
        }
        (From == Format::nvfp4 ? expand_nvfp4 : expand_mxfp4)(load(group), group_scales, output,
                                                              tile_bytes);
        output += group_vectors * tile_bytes;
      }
    }
  }
}

using ExpandPanel = void (*)(const MatmulTile&, std::int64_t, std::int64_t, std::int64_t,
                             std::int64_t, std::uint8_t*);

inline ExpandPanel panel_expander(Format format) {
  if (format == Format::nvfp4) return expand_panel<Format::nvfp4>;
  if (format == Format::mxfp4) return expand_panel<Format::mxfp4>;
  return format == Format::mxfp8_e4m3 ? expand_panel<Format::mxfp8_e4m3>
                                      : expand_panel<Format::mxfp8_e5m2>;
}

/// Asks for the weights of the panel that comes next, so that they arrive while tiles multiply.
inline void prefetch_panel(const MatmulTile& tile, std::int64_t col, std::int64_t at, int code_bits,
                           int block) {
  const std::int64_t bytes = chunk_steps * step * code_bits / 8;
  for (std::int64_t c = col; c < col + panel_columns && c < tile.cols; ++c) {
    const std::uint8_t* codes = tile.b.data + c * tile.b.stride + at * code_bits / 8;
    for (std::int64_t i = 0; i < bytes; i += 64)
      _mm_prefetch(reinterpret_cast<const char*>(codes + i), _MM_HINT_T1);
    _mm_prefetch(
        reinterpret_cast<const char*>(tile.b.scales + c * tile.b.scale_stride + at / block),
        _MM_HINT_T1);
  }
}

/// Sixteen rows of results from one tile of sums: row i of the tile is column i of d.
inline void write_results(const MatmulProduct& product, const MatmulTile& tile,
                          const std::uint8_t* c, std::int64_t col, std::int64_t row) {
  Int v[16];
  for (int i = 0; i < 16; ++i) v[i] = load(c + i * 64);
  transpose16(v);
  const std::int64_t columns = tile.cols - col < tile_side ? tile.cols - col : tile_side;
  const auto mask = static_cast<__mmask16>((1u << columns) - 1);
  const __m512d factor = _mm512_set1_pd(product.factor);
  Float bias = as_float(zero());
  if (product.bias) bias = _mm512_maskz_loadu_ps(mask, product.bias + tile.col + col);
  const __m512d low_bias = _mm512_cvtps_pd(_mm512_castps512_ps256(bias)),
                high_bias = _mm512_cvtps_pd(_mm512_extractf32x8_ps(bias, 1));
  for (std::int64_t r = 0; r < tile_side && row + r < tile.rows; ++r) {
    const Float sums = as_float(v[r]);
    const __m512d low = _mm512_cvtps_pd(_mm512_castps512_ps256(sums)),
                  high = _mm512_cvtps_pd(_mm512_extractf32x8_ps(sums, 1));
    const __m256 a = _mm512_cvtpd_ps(_mm512_add_pd(_mm512_mul_pd(low, factor), low_bias)),
                 b = _mm512_cvtpd_ps(_mm512_add_pd(_mm512_mul_pd(high, factor), high_bias));
    _mm512_mask_storeu_ps(tile.output + (row + r) * tile.output_stride + col, mask,
                          _mm512_insertf32x8(_mm512_castps256_ps512(a), b, 1));
  }
}

void multiply_tiles(const MatmulProduct& product, const MatmulTile& tile) {
  const std::int64_t k = product.k, row_tiles = (tile.rows + tile_side - 1) / tile_side,
                     panels = (tile.cols + panel_columns - 1) / panel_columns,
                     group_bytes = padded(k) * 2 * tile_side;
  const auto* x =
      static_cast<const std::uint8_t*>(product.prepared) + tile.row / tile_side * group_bytes;
  auto* panel = static_cast<std::uint8_t*>(tile.workspace);
  std::uint8_t* c = panel + panel_bytes;
  __builtin_memset(c, 0, static_cast<std::size_t>(2 * panels * row_tiles * tile_bytes));
  const ExpandPanel expand = panel_expander(product.b_format);
  const int code_bits =
      product.b_format == Format::nvfp4 || product.b_format == Format::mxfp4 ? 4 : 8;
  const int block = product.b_format == Format::nvfp4 ? 16 : 32;
  _tile_loadconfig(&tile_config);
  const std::int64_t depth = code_bits == 4 ? padded(k) : k;  // groups of FP4 are whole
  for (std::int64_t at = 0; at < depth; at += chunk_steps * step) {
    const std::int64_t left = (depth - at) / step;
    const std::int64_t steps = left < chunk_steps ? left : chunk_steps;
    for (std::int64_t p = 0; p < panels; ++p) {
      expand(tile, k, p * panel_columns, at, steps, panel);
      finish_stores();
      const bool last = p + 1 == panels;
      prefetch_panel(tile, last ? 0 : (p + 1) * panel_columns, last ? at + chunk_steps * step : at,
                     code_bits, block);
      const std::uint8_t* rows = x + at / step * tile_bytes;
      std::uint8_t* sums = c + 2 * p * row_tiles * tile_bytes;
      std::int64_t t = 0;
      for (; t + 2 <= row_tiles; t += 2)
        multiply_pair(panel, rows + t * group_bytes, group_bytes, sums + t * tile_bytes, row_tiles,
                      steps);
      if (t < row_tiles)
        multiply_single(panel, rows + t * group_bytes, sums + t * tile_bytes, row_tiles, steps);
      finish_stores();
    }
  }
  _tile_release();
  finish_stores();
  for (std::int64_t i = 0; i < 2 * panels && i * tile_side < tile.cols; ++i)
    for (std::int64_t t = 0; t < row_tiles; ++t)
      write_results(product, tile, c + (i * row_tiles + t) * tile_bytes, i * tile_side,
                    t * tile_side);
}

std::int64_t tile_workspace(const MatmulProduct& product) {
  const std::int64_t rows = product.m < most_tile_rows ? product.m : most_tile_rows;
  const std::int64_t tiles = (rows + tile_side - 1) / tile_side * (most_tile_columns / tile_side);
  return panel_bytes + tiles * tile_bytes;
}

/// BF16 elements of which one is finite and not below 2^100.
inline bool beyond_range(Int elements) {
  const Int magnitude = and_(elements, set16(0x7FFF));
  const __mmask32 large = _mm512_cmpge_epu16_mask(magnitude, set16(0x7180)),
                  finite = _mm512_cmplt_epu16_mask(magnitude, set16(0x7F80));
  return (large & finite) != 0;
}

/// Elements [at, at + 32) of a row in BF16, zeros behind k. Sets `odd` where one is beyond the
/// range.
inline Int load_row(const MatmulRows& a, std::int64_t row, std::int64_t at, std::int64_t k,
                    Expand32 expand, const Fp4Tables& tables, std::uint8_t& odd) {
  constexpr std::uint8_t too_large_scale = 211, nan = 255;  // as in matmul_rows.cpp
  const std::int64_t valid = k - at < step ? k - at : step;
  if (valid <= 0) return zero();
  if (a.dense()) {
    const auto mask = static_cast<__mmask32>(valid == step ? ~0u : (1u << valid) - 1);
    const Int elements = _mm512_maskz_loadu_epi16(mask, a.data + row * a.stride + at * 2);
    if (beyond_range(elements)) odd = 1;
    return elements;
  }
  if (a.format != Format::nvfp4) {
    const std::uint8_t scale = a.scales[row * a.scale_stride + at / 32];
    if (scale >= too_large_scale && scale != nan) odd = 1;
  }
  alignas(64) std::uint8_t elements[64];
  expand(a, row, at, valid, tables, elements);
  return load(elements);
}

void prepare_tiles(const MatmulProduct& product, std::int64_t first, std::int64_t count,
                   void* prepared, std::uint8_t* odd) {
  const MatmulRows& a = product.a;
  const std::int64_t k = product.k;
  const bool grouped = product.b_format == Format::nvfp4 || product.b_format == Format::mxfp4;
  auto* output = static_cast<std::uint8_t*>(prepared) + first * padded(k) * 2;
  Fp4Tables tables;
  if (!a.dense() && (a.format == Format::nvfp4 || a.format == Format::mxfp4))
    make_fp4_tables(a.format, tables);
  const Expand32 expand = expander(a.format);
  for (std::int64_t r = 0; r < count; ++r) odd[first + r] = 0;
  for (std::int64_t at = 0; at < padded(k); at += group_elements) {
    Int steps[group_vectors][tile_side];
    for (std::int64_t r = 0; r < tile_side; ++r) {
      Int v[group_vectors];
      for (int i = 0; i < group_vectors; ++i)
        v[i] = r < count ? load_row(a, first + r, at + i * step, k, expand, tables, odd[first + r])
                         : zero();
      if (grouped) to_group_order(v);
      for (int i = 0; i < group_vectors; ++i) steps[i][r] = v[i];
    }
    for (int i = 0; i < group_vectors; ++i) {
      transpose16(steps[i]);
      for (int j = 0; j < tile_side; ++j, output += 64) store(output, steps[i][j]);
    }
  }
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
