#include "cuda/matmul/product.hpp"

#include "layouts/fragment_tiles.hpp"

namespace microscale::cuda {
namespace {

ProductOperand operand_of(const TensorView& dense) {
  return {.type = dense.dtype,
          .data = static_cast<const std::uint8_t*>(dense.data),
          .stride = dense.row_stride * size_of(dense.dtype)};
}

ProductOperand operand_of(const BlockTensorView& blocks) {
  return {.format = blocks.shape.format,
          .data = blocks.codes.data(),
          .stride = blocks.shape.code_bytes_per_line(),
          .scales = blocks.scales.data(),
          .layout = blocks.shape.layout};
}

ProductOperand operand_of(const PackedWeights& packed) {
  return {.format = packed.shape.format, .data = packed.bytes.data(), .packed = true};
}

ProductRows rows_of(const MatmulCall& call) {
  ProductRows rows{call.rows(), call.matrices, nullptr, 0};
  if (call.groups) {
    const grouped::ExpertTable table = expert_table(*call.groups, rows.m);
    rows.expert_rows = table.numbers;
    rows.wide_numbers = table.wide;
    rows.capacity = table.capacity;
  }
  return rows;
}

ProductOutput output_of(const MatmulCall& call) {
  ProductOutput out{};
  out.d_stride = call.n();
  out.d_type = static_cast<std::int32_t>(DType::f32);
  if (const MutableTensorView* d = call.d_dense()) {
    out.d = d->data;
    out.d_stride = d->row_stride;
    out.d_type = static_cast<std::int32_t>(d->dtype);
  }
  out.d_matrix = call.groups ? 0 : call.rows() * out.d_stride;
  out.bias = call.bias.data;
  out.bias_type = static_cast<std::int32_t>(call.bias.dtype);
  out.bias_matrix = call.groups ? call.bias.row_stride : 0;
  out.up_bias = call.up_bias.data;
  out.up_bias_type = static_cast<std::int32_t>(call.up_bias.dtype);
  if (const BlockTensorView* a = call.a_blocks(); a && a->shape.format == Format::nvfp4) {
    out.a_global = a->global_scale.device_pointer();
    out.a_global_step = a->global_scale.is_per_expert();
  }
  if (call.b_shape().format == Format::nvfp4) {
    out.b_global = call.b_global_scale().device_pointer();
    out.b_global_step = call.b_global_scale().is_per_expert();
    if (call.gated) out.up_global = call.up_global_scale().device_pointer();
  }
  out.row_weights = call.row_weights;
  out.alpha = call.alpha;
  out.gated = call.gated;
  out.gelu = call.activation == Activation::gelu_tanh;
  return out;
}

}  // namespace

Product product_of(const MatmulCall& call) {
  Product product;
  product.operation = call.operation;
  product.a = std::visit([](const auto& a) { return operand_of(a); }, call.a);
  product.b = std::visit([](const auto& b) { return operand_of(b); }, call.b);
  if (call.gated && call.packed() == nullptr) product.up = operand_of(*call.up);
  product.n = call.n();
  product.k = call.k();
  product.grouped = call.groups != nullptr;
  product.rows = rows_of(call);
  product.output = output_of(call);
  product.quantized = call.quantized();
  product.constant_weights = call.constant_weights;
  product.fast_accumulation = call.fast_accumulation;
  return product;
}

bool has_kernels(Format format) {
  return format == Format::mxfp4 || format == Format::nvfp4 || format == Format::mxfp8_e4m3 ||
         format == Format::mxfp8_e5m2;
}

std::int64_t scale_bytes(const ProductOperand& blocks, std::int64_t rows, std::int64_t k) {
  return BlockShape{rows, k, *blocks.format, BlockAxis::cols, blocks.layout}.scale_bytes();
}

int packed_tile_bytes(Format format) {
  const FormatInfo& facts = info(format);
  return static_cast<int>(fragment_tiles::tile_bytes(facts.code_bits, facts.block));
}

bool has_vectors(const ProductOutput& out) {
  const std::int64_t element = size_of(static_cast<DType>(out.d_type));
  return reinterpret_cast<std::uintptr_t>(out.d) % 16 == 0 && out.d_stride * element % 16 == 0 &&
         out.d_matrix * element % 16 == 0;
}

}  // namespace microscale::cuda
