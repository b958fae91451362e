// Attention of backend cuda over caches, against a host's.
#pragma once

#include "equality.hpp"

namespace microscale::cuda {

void check_attention_calls(Device& device, const Scope& scope, EqualityTotals& totals);

}  // namespace microscale::cuda
