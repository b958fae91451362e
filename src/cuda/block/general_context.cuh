// A kernel's arguments as the defining function wants them (formats/block_quantizer.hpp).
#pragma once

#include "cuda/block/quantize_args.hpp"
#include "formats/block_quantizer.hpp"

namespace microscale::cuda {

template <bool E8M0>
__device__ BlockContext general_context(const QuantizeArgs& args) {
  BlockContext context;
  context.numerics.scale_rule = static_cast<ScaleRule>(args.scale_rule);
  context.numerics.rounding = static_cast<Rounding>(args.rounding);
  context.numerics.nan = args.nan_propagates ? NanPolicy::propagate : NanPolicy::drop;
  context.numerics.inf = args.inf_is_nan ? InfPolicy::nan_block : InfPolicy::saturate;
  context.numerics.zero_code = args.zero_is_positive ? ZeroCode::positive : ZeroCode::keep_sign;
  context.numerics.seed = args.seed;
  if constexpr (!E8M0) {
    context.global_scale = *args.global_scale;
    context.scale_factor = nvfp4_scale_factor(context.global_scale);
  }
  return context;
}

}  // namespace microscale::cuda
