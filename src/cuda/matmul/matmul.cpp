#include "cuda/matmul/matmul.hpp"

#include <fmt/format.h>

#include "cuda/matmul/product.hpp"
#include "cuda/operations.hpp"
#include "microscale/error.hpp"

namespace microscale::cuda {
namespace {

void quantize_sums(Device& device, const MatmulCall& call, std::int64_t all_rows, const float* sums,
                   Stream stream) {
  const QuantizedOutput& d = *call.quantized();
  if (call.groups) {
    GroupedQuantizeOptions options;
    options.input = {sums, DType::f32, call.rows(), call.n(), call.n()};
    options.groups = *call.groups;
    options.format = d.format;
    options.numerics = d.numerics;
    options.layout = d.layout;
    options.global_scale = d.global_scale;
    return grouped_quantize(device, options, d.codes, d.scales, stream);
  }
  // Where scales lie in rows, so do all matrices: one launch.
  const bool together = d.layout == Layout::row_major;
  const std::int64_t rows = together ? all_rows : call.rows();
  const BlockShape shape{rows, call.n(), d.format, BlockAxis::cols, d.layout};
  const auto codes = static_cast<std::size_t>(shape.code_bytes()),
             scales = static_cast<std::size_t>(shape.scale_bytes());
  for (std::int64_t i = 0; i < (together ? 1 : call.matrices); ++i) {
    QuantizeOptions options;
    options.input = {sums + i * rows * call.n(), DType::f32, rows, call.n(), call.n()};
    options.format = d.format;
    options.numerics = d.numerics;
    options.layout = d.layout;
    options.global_scale = d.global_scale;
    options.first_index = static_cast<std::uint64_t>(i * rows * call.n());
    const auto at = static_cast<std::size_t>(i);
    quantize(device, options, d.codes.subspan(at * codes, codes),
             d.scales.subspan(at * scales, scales), stream);
  }
}

/// Launches the kernels of a plan's family.
struct Family {
  Device& device;
  const Product& product;
  std::uint8_t* workspace;
  Stream stream;

  void operator()(Plan::Nothing) const {}
  void operator()(const few_rows::Plan& p) const { few_rows::run(device, p, product, stream); }
  void operator()(const in_registers::Plan& p) const {
    in_registers::run(device, p, product, workspace, stream);
  }
  void operator()(const expanded::Plan& p) const {
    expanded::run(device, p, product, workspace, stream);
  }
  void operator()(const block_scaled::Plan& p) const {
    block_scaled::run(device, p, product, stream);
  }
  void operator()(const tcgen05::Plan& p) const {
    tcgen05::run(device, p, product, workspace, stream);
  }
  void operator()(const vector::Plan& p) const { vector::run(device, p, product, stream); }
  void operator()(const fallback::Plan& p) const {
    fallback::run(device, p, product, workspace, stream);
  }
};

// The weights of `call`, packed to `bytes`, in place of those of `product`.
void pack(Device& device, const MatmulCall& call, std::span<std::uint8_t> bytes, Stream stream,
          Product& product) {
  const auto& b = std::get<BlockTensorView>(call.b);
  const std::int64_t needed = cuda::packed_weights_bytes(b.shape, call.matrices, call.gated);
  cuda::pack_weights(device, b, call.gated ? call.up : nullptr,
                     bytes.first(static_cast<std::size_t>(needed)), call.matrices, stream);
  product.b = {.format = b.shape.format, .data = bytes.data(), .packed = true};
  product.up = {};
  product.constant_weights = false;
}

void run(Device& device, const Plan& plan, const MatmulCall& call, Product product,
         std::span<std::uint8_t> workspace, Stream stream) {
  if (std::holds_alternative<Plan::Nothing>(plan.family)) return;
  check_memory(device, call, product, workspace, plan.workspace_bytes());
  if (std::holds_alternative<vector::Plan>(plan.family) && !vector::takes_alignment(product))
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: this plan was made for codes at multiples of {} bytes, and those "
                            "of a or of the weights are at others; align them, or make a plan of "
                            "them",
                            call.operation, vector::code_alignment));
  std::uint8_t* at = workspace.data();
  if (plan.packs()) pack(device, call, workspace, stream, product);
  at += plan.packed_bytes;
  auto* const sums = reinterpret_cast<float*>(at);
  if (plan.quantizes_sums()) product.output.d = sums;
  at += plan.sums_bytes;
  std::visit(Family{device, product, at, stream}, plan.family);
  if (plan.quantizes_sums()) quantize_sums(device, call, product.all_rows(), sums, stream);
}

class KeptPlan final : public GpuMatmulPlan {
 public:
  KeptPlan(Device& device, const MatmulCall& call)
      : device_(device), plan_(plan_matmul(DeviceFacts(device), call)) {}
  std::int64_t workspace_bytes() const override { return plan_.workspace_bytes(); }
  std::string describe() const override { return cuda::describe(plan_); }
  void run(const MatmulCall& call, std::span<std::uint8_t> workspace, void* stream) const override {
    run_matmul(device_, plan_, call, workspace, stream);
  }

 private:
  Device& device_;
  Plan plan_;
};

}  // namespace

void matmul(Device& device, const MatmulCall& call, std::span<std::uint8_t> workspace,
            Stream stream) {
  check_product(call);
  const Product product = product_of(call);
  run(device, choose(DeviceFacts(device), product), call, product, workspace, stream);
}

std::int64_t matmul_workspace_bytes(Device& device, const MatmulCall& call) {
  return plan_matmul(DeviceFacts(device), call).workspace_bytes();
}

Plan plan_matmul(const DeviceFacts& facts, const MatmulCall& call) {
  check_product(call);
  return choose(facts, product_of(call));
}

void run_matmul(Device& device, const Plan& plan, const MatmulCall& call,
                std::span<std::uint8_t> workspace, Stream stream) {
  run(device, plan, call, product_of(call), workspace, stream);
}

std::unique_ptr<GpuMatmulPlan> keep_plan(Device& device, const MatmulCall& call) {
  return std::make_unique<KeptPlan>(device, call);
}

}  // namespace microscale::cuda
