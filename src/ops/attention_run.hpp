// Runs a checked call of attention on a host.
#pragma once

#include "microscale/context.hpp"
#include "seam/attention_call.hpp"
#include "seam/attention_kernels.hpp"

namespace microscale {

/// The kernels of the context's backend for a checked call; null where there is nothing to do. A
/// function of its shapes and formats. Throws Error.
const AttentionKernels* choose_attention_kernels(const AttentionCall& call, const Context& context);

/// `kernels`: those chosen for the call, or for one of the same shapes and formats.
void run_attention(const AttentionCall& call, const Context& context,
                   const AttentionKernels* kernels);

}  // namespace microscale
