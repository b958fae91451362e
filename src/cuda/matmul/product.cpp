#include "cuda/matmul/product.hpp"

#include <fmt/format.h>

#include "layouts/fragment_tiles.hpp"
#include "microscale/error.hpp"

namespace microscale::cuda {
namespace {

void check_formats(const MatmulCall& call) {
  if (call.k() == 0)
    throw Error(
        ErrorCode::unsupported,
        fmt::format("{}: backend cuda multiplies rows of one block or more, k is 0 here; d is "
                    "the bias then, which a CPU backend stores",
                    call.operation));
  const auto check = [&](const char* name, Format format) {
    if (!has_kernels(format))
      throw Error(ErrorCode::unsupported,
                  fmt::format("{}: backend cuda multiplies MXFP4, NVFP4 and MXFP8, {} is {}; use "
                              "one of these, or a CPU backend",
                              call.operation, name, info(format).name));
  };
  check("b", call.b_shape().format);
  if (const BlockTensorView* a = call.a_blocks())
    check("a", a->shape.format);
  else if (call.a_dense()->dtype == DType::f32)
    throw Error(ErrorCode::unsupported,
                fmt::format("{}: backend cuda multiplies a of BF16 and FP16, this one is FP32; "
                            "round it to BF16, or quantize it",
                            call.operation));
}

// The quantizer writes matrix by matrix where scales are tiled, from multiples of 16 bytes on.
void check_quantized(const MatmulCall& call) {
  const QuantizedOutput* d = call.quantized();
  if (!d) return;
  if (call.groups && d->format == Format::nvfp4 && !d->global_scale.is_per_expert())
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: backend cuda wants a global scale for each expert's NVFP4 d; pass "
                            "GlobalScale::per_expert(address, Memory::device)",
                            call.operation));
  if (call.groups || call.matrices <= 1 || d->layout == Layout::row_major) return;
  const std::int64_t bytes = BlockShape{call.rows(), call.n(), d->format}.code_bytes();
  if (bytes % 16 != 0)
    throw Error(ErrorCode::unsupported,
                fmt::format("{}: backend cuda writes each of {} matrices with tiled scales from a "
                            "multiple of 16 bytes on, and their codes have {} bytes; take an even "
                            "number of rows, row-major scales, or one matrix a call",
                            call.operation, call.matrices, bytes));
}

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

void check_product(const MatmulCall& call) {
  check_formats(call);
  if (call.rows() > 0 && call.n() > 0 && call.matrices > 0) check_quantized(call);
}

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
