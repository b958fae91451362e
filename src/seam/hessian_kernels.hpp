// What a backend offers to the quantizers that take a Hessian: the seam between
// ops/quantize_with_hessian and their kernels. Every backend gives the bits of the reference
// (reference/hessian_kernels.cpp); docs/formats/accuracy.md says what they compute.
#pragma once

#include <cstdint>

#include "microscale/format.hpp"
#include "microscale/numerics.hpp"

namespace microscale {

/// Rows of weights that go through a kernel together, one beside the other: element (i, row) of a
/// group is at i * hessian_rows + row.
inline constexpr int hessian_rows = 32;

/// Columns of one step of the factorization.
inline constexpr int factor_width = 64;

/// MXFP4: the search tries this many bytes below the floor byte, and one above.
inline constexpr int mxfp4_window_below = 1;

/// Element (0, 0) of block b's panel in the factor, blocks of `block` columns: panels lie one after
/// the other, b's with (b + 1) * block rows of `block` columns. Rows on and below the diagonal are
/// 0.
constexpr std::int64_t factor_panel(std::int64_t b, int block) {
  return b * (b + 1) / 2 * block * block;
}

/// A group of rows, columns in the order of processing.
struct HessianRows {
  Format format = Format::nvfp4;  // or mxfp4
  ScaleRule rule = ScaleRule::search;
  float global_scale = 1.0f;
  std::int64_t blocks = 0;
  const float* weights = nullptr;
  const float* factor = nullptr;  // GPTQ: panels, see factor_panel; null: scales by the blocks of H
  const float* pivots = nullptr;  // GPTQ: one a column, relative to the largest of their block
  const float* hessian_blocks = nullptr;  // else block x block numbers for each block, as relative
  float* errors = nullptr;                // weight less value
  std::uint8_t* codes = nullptr;          // one a byte
  std::uint8_t* scales = nullptr;         // block b of a row at b * hessian_rows + row
};

struct HessianKernels {
  /// c[r][j] -= sum over k of v[r][k] * u[k * factor_width + j] for r < count and j < width, a
  /// multiple of 16: from k = depth - 1 down to 0, each a fused multiply-add.
  void (*eliminate)(double* const* c, const double* const* v, std::int64_t count, const double* u,
                    std::int64_t depth, int width);
  /// The same with v = c, depth = width: what is subtracted is what was computed. u[k][j] is 0 for
  /// j >= k.
  void (*solve)(double* const* c, std::int64_t count, const double* u, int width);
  /// sums[c] += sum over i of values[i] * matrix[i * stride + c] for c < 16 and every row of a
  /// group: from i = 0 to depth - 1, each a fused multiply-add.
  void (*add_products)(const float* values, std::int64_t depth, const float* matrix,
                       std::int64_t stride, float* sums);
  void (*quantize)(const HessianRows& rows);
};

extern const HessianKernels reference_hessian_kernels;
extern const HessianKernels avx2_hessian_kernels;
extern const HessianKernels avx512_hessian_kernels;

}  // namespace microscale
