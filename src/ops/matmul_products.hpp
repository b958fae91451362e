// A checked call as a list of plain products, one per matrix of the batch or per expert with rows,
// and the memory that belongs to the call alone: scales in rows, biases in FP32.
#pragma once

#include <cstdint>
#include <vector>

#include "seam/matmul_kernels.hpp"
#include "seam/matmul_call.hpp"

namespace microscale {

/// The weights of one product, in either layout of scales.
struct WeightRows {
  MatmulRows rows;                      // row-major scales; none where `tiled` is set
  const std::uint8_t* tiled = nullptr;  // scales in 128x4 tiles
  std::int64_t blocks = 0;              // per row

  /// Bytes of scratch that tile() wants for `cols` rows.
  std::int64_t scratch_bytes(std::int64_t cols) const { return tiled ? cols * blocks : 0; }
  /// Rows [col, col + cols), their scales in rows: in `scratch` where they are tiled.
  MatmulRows tile(std::int64_t col, std::int64_t cols, std::uint8_t* scratch) const;
};

/// One product and where its result goes. Row r of the product is row first_row + r of d.
struct ProductRun {
  MatmulProduct product;
  MatmulProduct up;  // gated: its factor and bias; the rest as in `product`
  WeightRows b, up_b;
  std::int64_t first_row = 0;
  std::int64_t prepared_row = 0;  // first of its rows among the prepared rows of the call
  std::int64_t expert = 0;        // its number in the batch or among the experts
  float d_global_scale = 1.0f;    // NVFP4 d
};

struct MatmulProducts {
  std::vector<ProductRun> runs;
  MatmulRows a;                        // of all runs
  std::vector<std::uint8_t> a_scales;  // in rows, where the caller's are tiled
  std::vector<float> bias, up_bias;
};

MatmulProducts resolve_products(const MatmulCall& call);

}  // namespace microscale
