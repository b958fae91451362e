// matmul, gated_matmul, grouped_matmul: one call each for the check and the runner. No arithmetic
// here.
#include "microscale/matmul.hpp"

#include <fmt/format.h>

#include "microscale/error.hpp"
#include "ops/matmul_call.hpp"

namespace microscale {
namespace {

void check_and_run(const MatmulCall& call, const Context& context) {
  check_matmul(call);
  if (context.backend == Backend::cuda)
    throw Error(ErrorCode::unsupported,
                fmt::format("{}: backend cuda has no matrix products in this version; use a CPU "
                            "backend with host memory, or dequantize on the GPU to BF16 and "
                            "multiply with the library of your choice",
                            call.operation));
  run_matmul(call, context);
}

}  // namespace

void matmul(const MatmulOptions& o, const Context& context) {
  MatmulCall call{.operation = "matmul", .a = o.a, .b = o.b, .d = o.d};
  call.matrices = o.batch;
  call.alpha = o.alpha;
  call.bias = o.bias;
  check_and_run(call, context);
}

void gated_matmul(const GatedMatmulOptions& o, const Context& context) {
  MatmulCall call{.operation = "gated_matmul", .a = o.a, .b = o.gate, .d = o.d};
  call.gated = true;
  call.up = &o.up;
  call.matrices = o.batch;
  call.activation = o.activation;
  call.alpha = o.alpha;
  call.bias = o.gate_bias;
  call.up_bias = o.up_bias;
  check_and_run(call, context);
}

void grouped_matmul(const GroupedMatmulOptions& o, const Context& context) {
  MatmulCall call{.operation = "grouped_matmul", .a = o.a, .b = o.b, .d = o.d};
  call.groups = &o.groups;
  call.matrices = o.groups.experts;
  call.alpha = o.alpha;
  call.bias = o.bias;
  call.row_weights = o.row_weights;
  call.a_global_scales = o.a_global_scales;
  call.b_global_scales = o.b_global_scales;
  call.d_global_scales = o.d_global_scales;
  check_and_run(call, context);
}

}  // namespace microscale
