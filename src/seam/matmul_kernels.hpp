// What a backend offers for matrix products: the seam between ops/matmul and its kernels. The
// operation cuts d into tiles and calls these; kernels never allocate, log or throw.
#pragma once

#include <cstdint>

#include "microscale/format.hpp"
#include "microscale/matmul.hpp"

namespace microscale {

/// Rows of k elements each: dense, or codes with row-major block scales.
struct MatmulRows {
  const std::uint8_t* data = nullptr;    // elements or codes; row r at data + r * stride
  std::int64_t stride = 0;               // in bytes
  const std::uint8_t* scales = nullptr;  // row r at scales + r * scale_stride; null: dense
  std::int64_t scale_stride = 0;
  DType dtype = DType::f32;       // dense
  Format format = Format::mxfp4;  // not dense

  bool dense() const { return scales == nullptr; }
  MatmulRows from(std::int64_t row) const {
    MatmulRows rest = *this;
    rest.data += row * stride;
    if (scales) rest.scales += row * scale_stride;
    return rest;
  }
};

/// One matrix product: factor * a @ b^T + bias, a with m rows, b with n, both of k elements. Global
/// scales and alpha are in the factor. b's rows come with each tile.
struct MatmulProduct {
  MatmulRows a;
  Format b_format = Format::mxfp4;
  std::int64_t m = 0, n = 0, k = 0;
  double factor = 1;
  const float* bias = nullptr;     // n values, or null
  bool weights_in_range = true;    // as MatmulKernels::weights_in_range says
  const void* prepared = nullptr;  // what prepare() made of all rows of a
};

/// Rows [row, row + rows) and columns [col, col + cols) of the result, in FP32.
struct MatmulTile {
  std::int64_t row = 0, rows = 0, col = 0, cols = 0;
  MatmulRows b;             // row 0 is column `col`
  float* output = nullptr;  // (i, j) of the tile at output + i * output_stride + j
  std::int64_t output_stride = 0;
  void* workspace = nullptr;  // workspace_bytes(product), at a multiple of 64; this call's alone
};

/// The largest tile a kernel wants; cols is 64 times a power of two. No sum may depend on the tile.
struct MatmulTileShape {
  std::int64_t rows, cols;
};

struct MatmulKernels {
  bool (*supports)(const MatmulProduct&);
  /// Whether weights_in_range() looks at b; else its answer is yes.
  bool (*asks_for_range)(const MatmulProduct&);
  /// Whether b's n rows are inside the range of this backend's fastest kernel; the answer comes
  /// back as MatmulProduct::weights_in_range (gated: of both matrices, for both products).
  bool (*weights_in_range)(const MatmulProduct&, const MatmulRows& b);
  /// What one prepared row of a takes; 0: a is read as it is. Rows are prepared `prepared_rows` at
  /// a time, the last ones filled up; so many take a multiple of 64 bytes.
  std::int64_t (*prepared_row_bytes)(const MatmulProduct&);
  std::int64_t (*prepared_rows)(const MatmulProduct&);
  /// Rows [first, first + count) of a into `prepared` (that of row 0); first is a multiple of
  /// prepared_rows. odd[r] becomes 1 for rows outside the kernel's exact range, else 0: the
  /// reference computes those.
  void (*prepare)(const MatmulProduct&, std::int64_t first, std::int64_t count, void* prepared,
                  std::uint8_t* odd);
  MatmulTileShape (*tile_shape)(const MatmulProduct&);
  std::int64_t (*workspace_bytes)(const MatmulProduct&);
  void (*multiply)(const MatmulProduct&, const MatmulTile&);
  /// gate[i] becomes activation(gate[i]) * up[i], as formats/producers.hpp has it, neighbours
  /// from the first on in pairs; the same bits on every backend.
  void (*activate)(Activation, float* gate, const float* up, std::int64_t count);
  /// `count` FP32 values to `type`, nearest even, NaN canonical.
  void (*store)(const float* values, std::int64_t count, DType type, void* output);
  /// The most roundings to FP32 that one term of a sum goes through before the epilogue.
  std::int64_t (*roundings)(std::int64_t k);
};

}  // namespace microscale
