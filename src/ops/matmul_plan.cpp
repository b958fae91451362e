// MatmulPlan: a checked call whose kernels are chosen, and what a later one may differ in.
#include "microscale/matmul_plan.hpp"

#include <fmt/format.h>

#include <cmath>
#include <variant>

#include "microscale/error.hpp"
#include "ops/backends.hpp"
#include "ops/matmul_check.hpp"
#include "ops/matmul_options.hpp"
#include "seam/gpu_operations.hpp"
#include "seam/matmul_plan.hpp"

namespace microscale {
namespace {

template <class View>
bool alike_dense(const View& a, const View& b) {
  return a.dtype == b.dtype && a.rows == b.rows && a.cols == b.cols && a.row_stride == b.row_stride;
}
/// One for all, or one per expert; which number may differ.
bool alike(const GlobalScale& a, const GlobalScale& b) {
  return a.is_per_expert() == b.is_per_expert();
}
bool alike(const TensorView& a, const TensorView& b) { return alike_dense(a, b); }
bool alike(const MutableTensorView& a, const MutableTensorView& b) { return alike_dense(a, b); }
bool alike(const BlockTensorView& a, const BlockTensorView& b) {
  return a.shape == b.shape && a.codes.size() == b.codes.size() &&
         a.scales.size() == b.scales.size() && alike(a.global_scale, b.global_scale);
}
bool alike(const PackedWeights& a, const PackedWeights& b) {
  return a.shape == b.shape && a.matrices == b.matrices && a.gated == b.gated &&
         a.bytes.size() == b.bytes.size() && alike(a.global_scale, b.global_scale) &&
         alike(a.up_global_scale, b.up_global_scale);
}
bool alike(const QuantizedOutput& a, const QuantizedOutput& b) {
  return a.format == b.format && a.numerics == b.numerics && a.layout == b.layout &&
         a.codes.size() == b.codes.size() && a.scales.size() == b.scales.size() &&
         alike(a.global_scale, b.global_scale);
}
template <class... Kinds>
bool alike(const std::variant<Kinds...>& a, const std::variant<Kinds...>& b) {
  return a.index() == b.index() && std::visit(
                                       [&](const auto& one) {
                                         using Kind = std::decay_t<decltype(one)>;
                                         return alike(one, std::get<Kind>(b));
                                       },
                                       a);
}
bool alike_bias(const TensorView& a, const TensorView& b) {
  return (a.data != nullptr) == (b.data != nullptr) && (a.data == nullptr || alike(a, b));
}
bool alike(const ExpertRows* a, const ExpertRows* b) {
  if (a == nullptr || b == nullptr) return a == b;
  return a->experts == b->experts && a->type == b->type && a->capacity == b->capacity &&
         (a->counts != nullptr) == (b->counts != nullptr);
}

/// What of a call is not as the plan's; null: nothing.
const char* difference(const MatmulCall& plan, const MatmulCall& call) {
  if (!alike(plan.a, call.a)) return "a";
  if (!alike(plan.b, call.b)) return "the weights";
  if (plan.up != nullptr && plan.packed() == nullptr && !alike(*plan.up, *call.up)) return "up";
  if (!alike(plan.d, call.d)) return "d";
  if (plan.matrices != call.matrices) return "the number of matrices";
  if (!alike(plan.groups, call.groups)) return "the groups";
  if (plan.activation != call.activation) return "the activation";
  if (plan.fast_accumulation != call.fast_accumulation) return "fast_accumulation";
  if (plan.constant_weights != call.constant_weights) return "constant_weights";
  if (!alike_bias(plan.bias, call.bias)) return "the bias";
  if (!alike_bias(plan.up_bias, call.up_bias)) return "up's bias";
  return nullptr;
}

}  // namespace

struct MatmulPlan::Kept {
  std::variant<MatmulOptions, GatedMatmulOptions, GroupedMatmulOptions> options;
  Backend backend;
  bool on_device = false;
  const MatmulKernels* on_cpu = nullptr;
  std::unique_ptr<GpuMatmulPlan> on_gpu{};

  template <class Options>
  Kept(const Options& made_of, const Context& context)
      : options(with_row_strides(made_of)), backend(context.backend) {
    const MatmulCall call = call_of(std::get<Options>(options), context);
    check_matmul(call);
    on_device = call.on_device;
    if (on_device)
      on_gpu = gpu_operations(call.operation).keep_matmul_plan(call);
    else
      on_cpu = choose_matmul_kernels(call, context);
  }

  template <class Options>
  void run(const Options& given, const Context& context) const {
    const Options now = with_row_strides(given);
    const MatmulCall call = call_of(now, context);
    const auto refuse = [&](const std::string& sentence) {
      throw Error(ErrorCode::invalid_argument, fmt::format("{}: {}", call.operation, sentence));
    };
    if (context.backend != backend)
      refuse(fmt::format("this plan was made for backend {}, the context says {}; make one for it",
                         to_string(backend), to_string(context.backend)));
    if (call.on_device != on_device)
      refuse(
          fmt::format("this plan was made for operands in {} memory, these are in {} memory; "
                      "make one for them",
                      on_device ? "device" : "host", on_device ? "host" : "device"));
    const Options* planned = std::get_if<Options>(&options);
    if (planned == nullptr) refuse("this plan is another product's; make one of these options");
    if (const char* what = difference(call_of(*planned, context), call))
      refuse(
          fmt::format("{} differs from what the plan was made with in its shape, strides, type, "
                      "format or layout; make a plan of these options",
                      what));
    if (!std::isfinite(call.alpha))
      refuse(fmt::format("alpha is {}; it must be finite", call.alpha));
    if (on_gpu) return on_gpu->run(call, context.workspace, context.stream);
    check_matmul(call);
    run_matmul(call, context, on_cpu);
  }
};

MatmulPlan::MatmulPlan(const MatmulOptions& options, const Context& context)
    : kept_(std::make_unique<Kept>(options, context)) {}
MatmulPlan::MatmulPlan(const GatedMatmulOptions& options, const Context& context)
    : kept_(std::make_unique<Kept>(options, context)) {}
MatmulPlan::MatmulPlan(const GroupedMatmulOptions& options, const Context& context)
    : kept_(std::make_unique<Kept>(options, context)) {}
MatmulPlan::MatmulPlan(MatmulPlan&&) noexcept = default;
MatmulPlan& MatmulPlan::operator=(MatmulPlan&&) noexcept = default;
MatmulPlan::~MatmulPlan() = default;

std::int64_t MatmulPlan::workspace_bytes() const {
  return kept_->on_gpu ? kept_->on_gpu->workspace_bytes() : 0;
}

std::string MatmulPlan::describe() const {
  if (kept_->on_gpu) return kept_->on_gpu->describe();
  return kept_->on_cpu ? std::string(name_of(*kept_->on_cpu)) : "nothing to do";
}

void MatmulPlan::run(const MatmulOptions& options, const Context& context) const {
  kept_->run(options, context);
}
void MatmulPlan::run(const GatedMatmulOptions& options, const Context& context) const {
  kept_->run(options, context);
}
void MatmulPlan::run(const GroupedMatmulOptions& options, const Context& context) const {
  kept_->run(options, context);
}

}  // namespace microscale
