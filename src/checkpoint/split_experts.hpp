// Two forms of one model side by side: where one holds the experts of a layer as one tensor and the
// other each by itself, as `quantize` writes them, the first is looked at expert by expert.
#pragma once

#include <deque>
#include <vector>

#include "checkpoint/matrix_slice.hpp"
#include "checkpoint/model_facts.hpp"
#include "checkpoint/quantized_folder.hpp"
#include "microscale/checkpoint.hpp"

namespace microscale {

/// The tensors of a folder, by name; fused experts that the other folder holds split are replaced
/// by one tensor per expert and matrix ("...experts.3.gate_proj.weight",
/// "...experts.3.up_proj.bias"), each a slice of the stored one.
struct SplitTensors {
  std::deque<MatrixSlice> slices;  // that `tensors` point to
  std::vector<LogicalTensor> tensors;

  SplitTensors() = default;
  SplitTensors(SplitTensors&&) = default;
  SplitTensors& operator=(SplitTensors&&) = default;
};

/// Points into `folder`; `facts` are of the model, `order` says how gate and up lie. Experts whose
/// dimensions cannot be told stay as they are.
SplitTensors split_like(const QuantizedFolder& folder, const QuantizedFolder& other,
                        const ModelFacts& facts, ExpertOrder order);

}  // namespace microscale
