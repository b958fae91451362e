// What computes and quantizes in one pass, and the quantizer of many experts' rows.
#pragma once

#include "block_tensor.hpp"

namespace microscale::python {

void bind_producers(nb::module_& module);
void bind_grouped_quantize(nb::module_& module);

}  // namespace microscale::python
