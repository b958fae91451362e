// matmul, gated_matmul, grouped_matmul: one call each for the check and the runner. No arithmetic
// here.
#include "microscale/matmul.hpp"

#include <new>

#include "core/out_of_memory.hpp"
#include "microscale/error.hpp"
#include "ops/matmul_check.hpp"
#include "ops/matmul_options.hpp"
#include "seam/gpu_operations.hpp"

namespace microscale {
MatmulCall call_of(const MatmulOptions& o, const Context& context) {
  MatmulCall call{.operation = "matmul", .a = o.a, .b = o.b, .d = o.d};
  call.on_device = context.backend == Backend::cuda;
  call.matrices = o.batch;
  call.alpha = o.alpha;
  call.fast_accumulation = o.fast_accumulation;
  call.constant_weights = o.constant_weights;
  call.bias = o.bias;
  return call;
}

MatmulCall call_of(const GatedMatmulOptions& o, const Context& context) {
  MatmulCall call{.operation = "gated_matmul", .a = o.a, .b = o.gate, .d = o.d};
  call.on_device = context.backend == Backend::cuda;
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
  call.on_device = context.backend == Backend::cuda;
  call.groups = &o.groups;
  call.matrices = o.groups.experts;
  call.alpha = o.alpha;
  call.fast_accumulation = o.fast_accumulation;
  call.constant_weights = o.constant_weights;
  call.bias = o.bias;
  call.row_weights = o.row_weights;
  call.a_global_scales = o.a_global_scales;
  call.b_global_scales = o.b_global_scales;
  call.d_global_scales = o.d_global_scales;
  return call;
}

namespace {

template <class Options>
void check_and_run(const Options& options, const Context& context) {
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
std::int64_t workspace(const Options& options, const Context& context) {
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
