#include "ops/matmul_products.hpp"

#include "layouts/packed_weights.hpp"
#include "layouts/repack.hpp"
#include "layouts/tiled_128x4.hpp"
#include "reference/dense.hpp"

namespace microscale {
namespace {

// All rows of a; tiled scales of each matrix, or of each expert's region, are put in rows.
MatmulRows input_rows(const MatmulCall& call, std::vector<std::uint8_t>& scales) {
  MatmulRows rows;
  if (const TensorView* a = call.a_dense()) {
    rows.data = static_cast<const std::uint8_t*>(a->data);
    rows.stride = a->row_stride * size_of(a->dtype);
    rows.dtype = a->dtype;
    return rows;
  }
  const BlockTensorView& a = *call.a_blocks();
  const std::int64_t blocks = a.shape.blocks_per_line();
  rows.data = a.codes.data();
  rows.stride = a.shape.code_bytes_per_line();
  rows.format = a.shape.format;
  rows.scale_stride = blocks;
  rows.scales = a.scales.data();
  if (a.shape.layout == Layout::row_major) return rows;
  const std::int64_t all = call.rows() * (call.groups ? 1 : call.matrices);
  scales.resize(static_cast<std::size_t>(all * blocks));
  std::int64_t at = 0;
  for (std::int64_t e = 0; e < call.matrices; ++e) {
    const auto [first, count] = call.rows_of(e);
    BlockShape region = a.shape;
    region.rows = count;
    repack_scale_bytes(region, a.scales.subspan(static_cast<std::size_t>(at)), Layout::row_major,
                       std::span(scales).subspan(static_cast<std::size_t>(first * blocks),
                                                 static_cast<std::size_t>(count * blocks)));
    region.rows = call.region_rows(count);
    at += region.scale_bytes();
  }
  rows.scales = scales.data();
  return rows;
}

WeightRows plain_weights(const BlockTensorView& b, std::int64_t matrix) {
  WeightRows w;
  w.blocks = b.shape.blocks_per_line();
  w.rows.data = b.codes.data() + matrix * b.shape.code_bytes();
  w.rows.stride = b.shape.code_bytes_per_line();
  w.rows.format = b.shape.format;
  w.rows.scale_stride = w.blocks;
  const std::uint8_t* scales = b.scales.data() + matrix * b.shape.scale_bytes();
  (b.shape.layout == Layout::row_major ? w.rows.scales : w.tiled) = scales;
  return w;
}

// `second`: the up matrix of a gated pair.
WeightRows packed(const PackedWeights& p, std::int64_t matrix, bool second) {
  const packed_weights::Parts parts(p.shape, p.gated);
  const std::int64_t every = p.gated ? 2 : 1;
  WeightRows w;
  w.blocks = p.shape.blocks_per_line();
  w.rows.data = p.bytes.data() + parts.codes_at(matrix) + (second ? parts.code_stride : 0);
  w.rows.stride = every * parts.code_stride;
  w.rows.scales = p.bytes.data() + parts.scales_at(matrix) + (second ? parts.scale_stride : 0);
  w.rows.scale_stride = every * parts.scale_stride;
  w.rows.format = p.shape.format;
  return w;
}

std::vector<float> floats_of(const TensorView& bias) {
  if (bias.data == nullptr) return {};
  std::vector<float> values;
  values.reserve(static_cast<std::size_t>(bias.rows * bias.cols));
  for (std::int64_t r = 0; r < bias.rows; ++r)
    for (std::int64_t c = 0; c < bias.cols; ++c)
      values.push_back(load_dense(bias.data, bias.dtype, r * bias.row_stride + c));
  return values;
}

double global_of(Format format, const GlobalScale& scale, std::int64_t expert) {
  return format != Format::nvfp4 ? 1.0 : static_cast<double>(scale.value(expert));
}

}  // namespace

MatmulRows WeightRows::tile(std::int64_t col, std::int64_t cols, std::uint8_t* scratch) const {
  MatmulRows part = rows.from(col);
  if (tiled == nullptr) return part;
  for (std::int64_t r = 0; r < cols; ++r)
    tiled_128x4::copy_line(tiled, col + r, blocks, scratch + r * blocks);
  part.scales = scratch;
  part.scale_stride = blocks;
  return part;
}

MatmulProducts resolve_products(const MatmulCall& call) {
  MatmulProducts all;
  all.a = input_rows(call, all.a_scales);
  all.bias = floats_of(call.bias);
  all.up_bias = floats_of(call.up_bias);
  const Format format = call.b_shape().format;
  const BlockTensorView* plain = std::get_if<BlockTensorView>(&call.b);
  const QuantizedOutput* quantized = call.quantized();
  for (std::int64_t e = 0; e < call.matrices; ++e) {
    ProductRun run;
    run.expert = e;
    const auto [first_row, rows] = call.rows_of(e);
    run.first_row = first_row;
    if (rows == 0 || call.n() == 0) continue;
    const BlockTensorView* a = call.a_blocks();
    const double a_global = a ? global_of(a->shape.format, a->global_scale, e) : 1.0;
    MatmulProduct& p = run.product;
    p.a = all.a.from(run.first_row);
    p.b_format = format;
    p.m = rows;
    p.n = call.n();
    p.k = call.k();
    p.factor =
        static_cast<double>(call.alpha) * a_global * global_of(format, call.b_global_scale(), e);
    if (!all.bias.empty()) p.bias = all.bias.data() + (call.groups ? e * call.n() : 0);
    run.b = plain ? plain_weights(*plain, e) : packed(*call.packed(), e, false);
    if (call.gated) {
      run.up = p;
      run.up.factor =
          static_cast<double>(call.alpha) * a_global * global_of(format, call.up_global_scale(), e);
      run.up.bias = all.up_bias.empty() ? nullptr : all.up_bias.data();
      run.up_b = plain ? plain_weights(*call.up, e) : packed(*call.packed(), e, true);
    }
    if (quantized && quantized->format == Format::nvfp4)
      run.d_global_scale = quantized->global_scale.value(e);
    all.runs.push_back(run);
  }
  return all;
}

}  // namespace microscale
