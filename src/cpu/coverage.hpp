// What the vector kernels take on; the rest is another table's.
#pragma once

#include "seam/kernel_table.hpp"

namespace microscale::cpu {

/// Every format by any of our own scale rules, rounded to nearest even or
/// stochastically, with signed zeros.
bool covers(const QuantizeLines& call);
bool covers(const DequantizeLines& call);

}  // namespace microscale::cpu
