// The checker's kernels as PTX: one entry per spelling of mma.sync and wgmma, one block a case.
#pragma once

#include <string>

#include "support/wgmma_cases.hpp"

namespace microscale::mma_check {

/// A module for sm_90a with every kernel of hopper_mma_shapes() and hopper_wgmma_variants(). Each
/// takes two pointers, cases and results, in one parameter; block i computes case i.
std::string hopper_module();

}  // namespace microscale::mma_check
