// The three public matrix products as one call: what the check, the resolving and the running of
// it share, on a host and on a GPU.
#pragma once

#include <cstdint>

#include "seam/expert_rows.hpp"
#include "microscale/matmul.hpp"

namespace microscale {

struct MatmulCall {
  const char* operation = "matmul";
  const MatmulInput& a;
  const MatmulWeights& b;               // the gate, where gated
  const BlockTensorView* up = nullptr;  // unpacked weights of a gated product, else null
  const MatmulOutput& d;
  bool on_device = false;              // all memory is a GPU's
  std::int64_t matrices = 1;           // of a batch, or experts
  const ExpertRows* groups = nullptr;  // null: a batch
  bool gated = false;
  Activation activation = Activation::silu;
  bool fast_accumulation = false;
  bool constant_weights = false;
  float alpha = 1.0f;
  TensorView bias{}, up_bias{};
  const float* row_weights = nullptr;

  const BlockTensorView* a_blocks() const { return std::get_if<BlockTensorView>(&a); }
  const TensorView* a_dense() const { return std::get_if<TensorView>(&a); }
  const QuantizedOutput* quantized() const { return std::get_if<QuantizedOutput>(&d); }
  const MutableTensorView* d_dense() const { return std::get_if<MutableTensorView>(&d); }
  const PackedWeights* packed() const { return std::get_if<PackedWeights>(&b); }
  const BlockShape& b_shape() const {
    return packed() ? packed()->shape : std::get<BlockTensorView>(b).shape;
  }
  const GlobalScale& b_global_scale() const {
    return packed() ? packed()->global_scale : std::get<BlockTensorView>(b).global_scale;
  }
  const GlobalScale& up_global_scale() const {
    return packed() ? packed()->up_global_scale : up->global_scale;
  }
  std::int64_t rows() const { return a_dense() ? a_dense()->rows : a_blocks()->shape.rows; }
  std::int64_t k() const { return a_dense() ? a_dense()->cols : a_blocks()->shape.cols; }
  std::int64_t n() const { return b_shape().rows; }
  /// Rows of a and d of matrix e of a batch, or of expert e, from host memory.
  grouped::RowSpan rows_of(std::int64_t e) const {
    return groups ? grouped::rows_of_expert(expert_table(*groups, rows()), e)
                  : grouped::RowSpan{e * rows(), rows()};
  }
  /// The rows that its 128x4 scales are for.
  std::int64_t region_rows(std::int64_t count) const {
    return groups ? grouped::region_rows(expert_table(*groups).capacity, count) : count;
  }
};

}  // namespace microscale
