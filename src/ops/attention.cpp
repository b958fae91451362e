// attention: one call each for the check and the runner. No arithmetic here.
#include "microscale/attention.hpp"

#include "microscale/error.hpp"
#include "ops/attention_check.hpp"
#include "ops/attention_run.hpp"

namespace microscale {
namespace {

[[noreturn]] void refuse_device() {
  throw Error(
      ErrorCode::unsupported,
      "attention: backend cuda has no kernel for it in this version; copy the operands to host "
      "memory and leave the backend to `automatic`");
}

}  // namespace

void attention(const AttentionOptions& options, const Context& context) {
  const bool on_device = context.backend == Backend::cuda;
  const AttentionCall call = check_attention(options, on_device);
  if (on_device) refuse_device();
  run_attention(call, context);
}

std::int64_t attention_workspace_bytes(const AttentionOptions& options, const Context& context) {
  const bool on_device = context.backend == Backend::cuda;
  check_attention(options, on_device);
  if (on_device) refuse_device();
  return 0;
}

}  // namespace microscale
