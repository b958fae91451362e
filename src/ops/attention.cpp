// attention: one call each for the check and the runner. No arithmetic here.
#include "microscale/attention.hpp"

#include <new>

#include "core/out_of_memory.hpp"
#include "ops/attention_check.hpp"
#include "ops/attention_run.hpp"
#include "seam/gpu_operations.hpp"

namespace microscale {
void attention(const AttentionOptions& options, const Context& context) try {
  const bool on_device = attention_runs_on_device(options, context);
  const AttentionCall call = check_attention(options, on_device);
  if (on_device)
    return gpu_operations("attention").attention(call, context.workspace, context.stream);
  run_attention(call, context, choose_attention_kernels(call, context));
} catch (const std::bad_alloc&) {
  throw_out_of_memory("attention");
}

std::int64_t attention_workspace_bytes(const AttentionOptions& options, const Context& context) {
  const bool on_device = attention_runs_on_device(options, context);
  const AttentionCall call = check_attention(options, on_device);
  return on_device ? gpu_operations("attention").attention_workspace_bytes(call) : 0;
}

}  // namespace microscale
