// Matrix products of backend cuda against FP64 sums, within the bound of docs/matmul.md.
#pragma once

#include "equality.hpp"

namespace microscale::cuda {

/// `scope.formats`: of the weights.
void check_products(Device& device, const Scope& scope, EqualityTotals& totals);

}  // namespace microscale::cuda
