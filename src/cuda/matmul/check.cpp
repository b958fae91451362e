// What pointers can break of a product.
#include <array>

#include "cuda/device/operands.hpp"
#include "cuda/matmul/product.hpp"

namespace microscale::cuda {
namespace {

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

void check_memory(Device& device, const MatmulCall& call, const Product& product,
                  std::span<std::uint8_t> workspace, std::int64_t workspace_bytes) {
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
