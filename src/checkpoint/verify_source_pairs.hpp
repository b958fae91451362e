// Which tensor of a folder was made of what in the original.
#pragma once

#include <vector>

#include "checkpoint/dense_view.hpp"
#include "checkpoint/finding.hpp"
#include "checkpoint/matrix_slice.hpp"
#include "checkpoint/quantized_folder.hpp"
#include "checkpoint/split_experts.hpp"

namespace microscale {

/// A tensor of the folder and what it was made of: a matrix of the original, or all of a tensor.
struct SourcePair {
  const LogicalTensor* stored = nullptr;
  const DenseTensor* original = nullptr;
  MatrixSlice slice;     // of the original, in the order of the stored values
  bool by_value = true;  // else what was to be copied: byte for byte
};

struct SourcePairs {
  SplitTensors stored;  // of the folder; pairs point to them
  std::vector<SourcePair> pairs;
};

/// Weights without an original, of another shape, and tensors of the original of which nothing was
/// made go into `findings`. `source` is the original, `view` what it stands for.
SourcePairs pair_with_source(const QuantizedFolder& folder, const QuantizedFolder& source,
                             const DenseView& view, Findings& findings);

}  // namespace microscale
