// matmul, gated_matmul, grouped_matmul: one call each for the check and the runner. No arithmetic
// here.
#include "microscale/matmul.hpp"

#include <new>

#include "core/out_of_memory.hpp"
#include "microscale/error.hpp"
#include "ops/check.hpp"
#include "ops/matmul_check.hpp"
#include "ops/matmul_options.hpp"
#include "ops/operand_memory.hpp"
#include "seam/gpu_operations.hpp"

namespace microscale {
namespace {

// Where the operands of a product lie; a bias that is absent lies where a does.
bool is_on_device(const char* operation, const Context& context, const MatmulInput& a,
                  const MatmulWeights& b, const char* weights, const MatmulOutput& d,
                  const TensorView& bias) {
  const auto named = [](const char* name, const auto& views) {
    return std::visit([&](const auto& view) { return operand(name, view); }, views);
  };
  const OperandMemory of_a = named("a", a);
  return runs_on_device(operation, context,
                        {of_a,
                         named(weights, b),
                         named("d", d),
                         {"the bias", bias.data ? bias.memory : of_a.memory, {bias.data}}});
}

template <class Options>
void set_row_strides(Options& o) {
  if (auto* a = std::get_if<TensorView>(&o.a)) *a = with_row_stride(*a);
  if (auto* d = std::get_if<MutableTensorView>(&o.d)) *d = with_row_stride(*d);
}

}  // namespace

MatmulOptions with_row_strides(MatmulOptions o) {
  set_row_strides(o);
  o.bias = with_row_stride(o.bias);
  return o;
}
GatedMatmulOptions with_row_strides(GatedMatmulOptions o) {
  set_row_strides(o);
  o.gate_bias = with_row_stride(o.gate_bias);
  o.up_bias = with_row_stride(o.up_bias);
  return o;
}
GroupedMatmulOptions with_row_strides(GroupedMatmulOptions o) {
  set_row_strides(o);
  o.bias = with_row_stride(o.bias);
  return o;
}

MatmulCall call_of(const MatmulOptions& o, const Context& context) {
  MatmulCall call{.operation = "matmul", .a = o.a, .b = o.b, .d = o.d};
  call.on_device = is_on_device(call.operation, context, o.a, o.b, "b", o.d, o.bias);
  call.matrices = o.batch;
  call.alpha = o.alpha;
  call.fast_accumulation = o.fast_accumulation;
  call.constant_weights = o.constant_weights;
  call.bias = o.bias;
  return call;
}

MatmulCall call_of(const GatedMatmulOptions& o, const Context& context) {
  MatmulCall call{.operation = "gated_matmul", .a = o.a, .b = o.gate, .d = o.d};
  call.on_device = is_on_device(call.operation, context, o.a, o.gate, "the gate", o.d, o.gate_bias);
  const bool plain = std::holds_alternative<BlockTensorView>(o.gate);
  const Memory memory = call.on_device ? Memory::device : Memory::host;
  runs_on_device(call.operation, context,
                 {{"a", memory},
                  plain ? operand("up", o.up) : OperandMemory{"up", memory},
                  {"up's bias", o.up_bias.data ? o.up_bias.memory : memory, {o.up_bias.data}}});
  call.gated = true;
  call.up = &o.up;
  call.matrices = o.batch;
  call.activation = o.activation;
  call.alpha = o.alpha;
  call.fast_accumulation = o.fast_accumulation;
  call.constant_weights = o.constant_weights;
  call.bias = o.gate_bias;
  call.up_bias = o.up_bias;
  return call;
}

MatmulCall call_of(const GroupedMatmulOptions& o, const Context& context) {
  MatmulCall call{.operation = "grouped_matmul", .a = o.a, .b = o.b, .d = o.d};
  call.on_device = is_on_device(call.operation, context, o.a, o.b, "b", o.d, o.bias);
  runs_on_device(call.operation, context,
                 {{"the table of experts",
                   call.on_device ? Memory::device : Memory::host,
                   {o.groups.offsets, o.groups.counts, o.row_weights}}});
  call.groups = &o.groups;
  call.matrices = o.groups.experts;
  call.alpha = o.alpha;
  call.fast_accumulation = o.fast_accumulation;
  call.constant_weights = o.constant_weights;
  call.bias = o.bias;
  call.row_weights = o.row_weights;
  return call;
}

namespace {

template <class Options>
void check_and_run(const Options& given, const Context& context) {
  const Options options = with_row_strides(given);
  const MatmulCall call = call_of(options, context);
  try {
    check_matmul(call);
    if (call.on_device)
      gpu_operations(call.operation).matmul(call, context.workspace, context.stream);
    else
      run_matmul(call, context, choose_matmul_kernels(call, context));
  } catch (const std::bad_alloc&) {
    throw_out_of_memory(call.operation);
  }
}

template <class Options>
std::int64_t workspace(const Options& given, const Context& context) {
  const Options options = with_row_strides(given);
  const MatmulCall call = call_of(options, context);
  return call.on_device ? gpu_operations(call.operation).matmul_workspace_bytes(call) : 0;
}

}  // namespace

void matmul(const MatmulOptions& o, const Context& context) { check_and_run(o, context); }
void gated_matmul(const GatedMatmulOptions& o, const Context& context) {
  check_and_run(o, context);
}
void grouped_matmul(const GroupedMatmulOptions& o, const Context& context) {
  check_and_run(o, context);
}

std::int64_t matmul_workspace_bytes(const MatmulOptions& o, const Context& context) {
  return workspace(o, context);
}
std::int64_t matmul_workspace_bytes(const GatedMatmulOptions& o, const Context& context) {
  return workspace(o, context);
}
std::int64_t matmul_workspace_bytes(const GroupedMatmulOptions& o, const Context& context) {
  return workspace(o, context);
}

}  // namespace microscale
