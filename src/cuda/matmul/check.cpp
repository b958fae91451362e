#include "cuda/matmul/check.hpp"

#include <fmt/format.h>

#include <array>

#include "cuda/device/operands.hpp"
#include "cuda/matmul/product.hpp"
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

/// The buffers of a call, without allocating: at most as many as a call has.
class Buffers {
 public:
  void add(const char* what, const void* data, std::int64_t bytes, bool written = false) {
    if (bytes > 0) all_[count_++] = {what, data, bytes, written};
  }
  template <class Byte>
  void add(const char* what, std::span<Byte> bytes, bool written = false) {
    add(what, bytes.data(), static_cast<std::int64_t>(bytes.size()), written);
  }
  void add_floats(const char* what, const float* values, std::int64_t count) {
    if (values != nullptr) add(what, values, count * 4);
  }
  void add_bias(const char* what, const TensorView& bias) {
    if (bias.data != nullptr)
      add(what, bias.data,
          extent_bytes(bias.rows, bias.cols, bias.row_stride, size_of(bias.dtype)));
  }
  std::span<const Operand> all() const { return std::span(all_).first(count_); }

 private:
  std::array<Operand, 18> all_{};
  std::size_t count_ = 0;
};

void add_weights(const MatmulCall& call, Buffers& buffers) {
  if (const PackedWeights* packed = call.packed())
    return buffers.add("the packed weights", packed->bytes);
  const auto& b = std::get<BlockTensorView>(call.b);
  buffers.add("the weights' codes", b.codes);
  buffers.add("the weights' scales", b.scales);
  if (!call.gated) return;
  buffers.add("the codes of up", call.up->codes);
  buffers.add("the scales of up", call.up->scales);
}

void add_output(const MatmulCall& call, std::int64_t rows, Buffers& buffers) {
  if (const MutableTensorView* d = call.d_dense())
    return buffers.add("d", d->data, extent_bytes(rows, d->cols, d->row_stride, size_of(d->dtype)),
                       true);
  const QuantizedOutput& out = *call.quantized();
  buffers.add("the codes of d", out.codes, true);
  buffers.add("the scales of d", out.scales, true);
  if (out.format == Format::nvfp4 && !out.global_scale.is_per_expert())
    buffers.add("the global scale of d", out.global_scale.device_pointer(), 4);
}

}  // namespace

void check_product(const MatmulCall& call) {
  check_formats(call);
  if (call.rows() > 0 && call.n() > 0 && call.matrices > 0) check_quantized(call);
}

void check_memory(Device& device, const MatmulCall& call, std::span<std::uint8_t> workspace,
                  std::int64_t workspace_bytes) {
  const Product product = product_of(call);
  const ProductOutput& out = product.output;
  const std::int64_t rows = product.all_rows();
  Buffers buffers;
  if (const TensorView* a = call.a_dense()) {
    buffers.add("a", a->data, extent_bytes(rows, a->cols, a->row_stride, size_of(a->dtype)));
  } else {
    buffers.add("the codes of a", call.a_blocks()->codes);
    buffers.add("the scales of a", call.a_blocks()->scales);
  }
  add_weights(call, buffers);
  add_output(call, rows, buffers);
  if (call.groups) {
    const ExpertNumbers numbers = expert_numbers(*call.groups);
    buffers.add(numbers.name, numbers.data, numbers.bytes);
  }
  buffers.add_bias("the bias", call.bias);
  buffers.add_bias("up's bias", call.up_bias);
  buffers.add_floats("row_weights", call.row_weights, rows);
  const auto add_global = [&](const char* what, const ProductOperand& blocks, const float* values,
                              bool each) {
    if (blocks.format == Format::nvfp4) buffers.add(what, values, each ? call.matrices * 4 : 4);
  };
  add_global("the global scale of a", product.a, out.a_global, out.a_global_step);
  add_global("the global scale of the weights", product.b, out.b_global, out.b_global_step);
  if (call.gated) add_global("the global scale of up", product.b, out.up_global, false);
  check_workspace(call.operation, "matmul_workspace_bytes", workspace, workspace_bytes);
  buffers.add("the workspace", workspace.first(static_cast<std::size_t>(workspace_bytes)), true);
  check_operands(device, call.operation, buffers.all());
}

}  // namespace microscale::cuda
