// Rows of a as right operands of tile products: BF16, pairs of elements of 16 rows beside each
// other, in the order in which weights come out.
#include "cpu/amx/kernels.hpp"
#include "cpu/avx512/vector.hpp"
#include "cpu/runs.hpp"

#include <type_traits>

MICROSCALE_AMX_BEGIN
using namespace microscale::avx512;
#include "cpu/generic/dense.hpp"
#include "cpu/avx512/lookup.hpp"
#include "cpu/generic/dequantize_mxfp8.hpp"
#include "cpu/avx512/matmul_scales.hpp"
#include "cpu/amx/expand.hpp"

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

/// The power of two that brings a row's largest finite magnitude to [2^110, 2^111): far enough up
/// for NVFP4 weights at 2^-112 of their values, and no sum of 2^20 products leaves FP32.
inline int row_shift(Int largest) {
  alignas(64) std::uint16_t each[32];
  store(each, largest);
  int most = 0;
  for (const std::uint16_t bits : each) most = bits > most ? bits : most;
  return most < 0x80 ? 0 : 110 + 127 - (most >> 7);
}

/// BF16 elements times 2^shift; those below the normal numbers, which count as zero, become zero.
inline Int shifted(Int elements, int shift) {
  const Int magnitude = and_(elements, set16(0x7FFF));
  const __mmask32 some = _mm512_cmpge_epu16_mask(magnitude, set16(0x80)),
                  finite = _mm512_cmplt_epu16_mask(magnitude, set16(0x7F80));
  const Int normal = _mm512_maskz_mov_epi16(some, elements);
  return _mm512_mask_add_epi16(normal, some & finite, elements, set16(shift << 7));
}

void prepare_tiles(const MatmulProduct& product, std::int64_t first, std::int64_t count,
                   void* prepared, std::uint8_t* odd) {
  const MatmulRows& a = product.a;
  const std::int64_t k = product.k;
  const bool grouped = product.b_format == Format::nvfp4 || product.b_format == Format::mxfp4;
  Fp4Tables tables;
  if (!a.dense() && (a.format == Format::nvfp4 || a.format == Format::mxfp4))
    make_fp4_tables(a.format, tables);
  const Expand32 expand = expander(a.format);
  for (std::int64_t r = 0; r < count; ++r) odd[first + r] = 0;
  int shift[tile_side] = {};
  float* factors =
      reinterpret_cast<float*>(static_cast<std::uint8_t*>(prepared) + factor_offset(product.m, k));
  for (std::int64_t r = 0; r < tile_side; ++r) {
    factors[first + r] = 1.0f;
    if (product.b_format != Format::nvfp4 || r >= count) continue;
    Int largest = zero();
    for (std::int64_t at = 0; at < k; at += step) {
      const Int magnitude =
          and_(load_row(a, first + r, at, k, expand, tables, odd[first + r]), set16(0x7FFF));
      const __mmask32 finite = _mm512_cmplt_epu16_mask(magnitude, set16(0x7F80));
      largest = _mm512_mask_max_epu16(largest, finite, largest, magnitude);
    }
    shift[r] = row_shift(largest);
    factors[first + r] = __builtin_ldexpf(1.0f, 112 - shift[r]);
  }
  const std::int64_t chunk = chunk_steps(product.m) * step;
  for (std::int64_t at = 0; at < padded(k); at += group_elements) {
    const std::int64_t begin = at / chunk * chunk;
    std::uint8_t* output = static_cast<std::uint8_t*>(prepared) + chunk_offset(product.m, begin) +
                           first / tile_side * chunk_group_bytes(product.m, k, begin) +
                           (at - begin) / step * tile_bytes;
    Int steps[group_vectors][tile_side];
    for (std::int64_t r = 0; r < tile_side; ++r) {
      Int v[group_vectors];
      for (int i = 0; i < group_vectors; ++i)
        v[i] = r < count ? load_row(a, first + r, at + i * step, k, expand, tables, odd[first + r])
                         : zero();
      if (product.b_format == Format::nvfp4)
        for (int i = 0; i < group_vectors; ++i) v[i] = shifted(v[i], shift[r]);
      if (grouped) to_group_order(v);
      for (int i = 0; i < group_vectors; ++i) steps[i][r] = v[i];
    }
    for (int i = 0; i < group_vectors; ++i) {
      transpose16(steps[i]);
      for (int j = 0; j < tile_side; ++j, output += 64) store(output, steps[i][j]);
    }
  }
}
MICROSCALE_AMX_END
