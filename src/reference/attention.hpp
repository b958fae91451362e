// The reference's attention: exact operands, FP64 throughout. What every other backend is compared
// with; takes every format and every mode.
#pragma once

#include "seam/attention_kernels.hpp"

namespace microscale {

extern const AttentionKernels reference_attention;

}  // namespace microscale
