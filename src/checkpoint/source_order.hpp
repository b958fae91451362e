// Whether a weight that is far from its original is the original in another order.
#pragma once

#include <string>

#include "checkpoint/dense_view.hpp"
#include "checkpoint/matrix_slice.hpp"
#include "checkpoint/quantized_folder.hpp"

namespace microscale {

/// "it is the original transposed", "its rows are in another order: row 8 is row 1 of the
/// original", or empty. A few rows of `stored` are held against all rows, and columns of a square
/// one, of `slice` of `original`, which is read once. Throws Error where a file cannot be read.
std::string order_against(const QuantizedFolder& folder, const LogicalTensor& stored,
                          const DenseTensor& original, const MatrixSlice& slice);

}  // namespace microscale
