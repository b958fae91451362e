// Runs a checked call of attention on a host.
#pragma once

#include "seam/attention_call.hpp"

namespace microscale {

void run_attention(const AttentionCall& call, const Context& context);

}  // namespace microscale
