// The three public products' options as one call, which refers to them.
#pragma once

#include "microscale/context.hpp"
#include "microscale/matmul.hpp"
#include "seam/matmul_call.hpp"

namespace microscale {

/// The options with the row strides that 0 stands for; a call refers to these.
MatmulOptions with_row_strides(MatmulOptions options);
GatedMatmulOptions with_row_strides(GatedMatmulOptions options);
GroupedMatmulOptions with_row_strides(GroupedMatmulOptions options);

MatmulCall call_of(const MatmulOptions& options, const Context& context);
MatmulCall call_of(const GatedMatmulOptions& options, const Context& context);
MatmulCall call_of(const GroupedMatmulOptions& options, const Context& context);

}  // namespace microscale
