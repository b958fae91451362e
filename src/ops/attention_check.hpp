// What attention refuses, and the call in the form in which it is run.
#pragma once

#include "seam/attention_call.hpp"

namespace microscale {

/// True where the call runs on the device (ops/operand_memory.hpp). Throws Error where its views
/// lie in memory that the backend does not read.
bool attention_runs_on_device(const AttentionOptions& options, const Context& context);

/// Throws Error unless the call can run; reads offsets, lengths and page tables on a host.
AttentionCall check_attention(const AttentionOptions& options, bool on_device);

}  // namespace microscale
