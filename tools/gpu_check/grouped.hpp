// Grouped quantize and the repacking of containers on the GPU at hand: byte for byte against the
// CPU.
#pragma once

#include "equality.hpp"

namespace microscale::cuda {

/// Add their calls and differences to `totals`.
void check_grouped(Device& device, const Scope& scope, EqualityTotals& totals);
void check_containers(Device& device, EqualityTotals& totals);

}  // namespace microscale::cuda
