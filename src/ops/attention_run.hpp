// Runs a checked call of attention on a host.
#pragma once

#include "ops/attention_check.hpp"

namespace microscale {

void run_attention(const AttentionCall& call, const Context& context);

}  // namespace microscale
