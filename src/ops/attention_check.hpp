// What attention refuses, and the call in the form in which it is run.
#pragma once

#include "seam/attention_call.hpp"

namespace microscale {

/// Throws Error unless the call can run; reads offsets, lengths and page tables on a host.
AttentionCall check_attention(const AttentionOptions& options, bool on_device);

}  // namespace microscale
