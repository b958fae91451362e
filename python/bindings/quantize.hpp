// Dense to blocks and back.
#pragma once

#include "block_tensor.hpp"

namespace microscale::python {

/// `dtype`: None is float32 on the CPU, bfloat16 on a GPU; `out`: None, or an array of the shape.
nb::object dequantized(const BlockTensorObject& tensor, nb::handle dtype, nb::handle out,
                       const RunWords& words);

void bind_quantize(nb::module_& module);
void bind_hessian(nb::module_& module);
void bind_scales(nb::module_& module);

}  // namespace microscale::python
