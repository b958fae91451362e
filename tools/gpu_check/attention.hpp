// Attention of backend cuda over caches, against a host's.
#pragma once

#include "equality.hpp"

namespace microscale::cuda {

/// append_kv: the last page of each call.
void check_append_calls(Device& device, const Scope& scope, EqualityTotals& totals);
void check_attention_calls(Device& device, const Scope& scope, EqualityTotals& totals);

}  // namespace microscale::cuda
