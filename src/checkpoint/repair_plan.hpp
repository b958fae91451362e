// What is to be done to a quantized folder so that loaders take it: decided from headers, config
// and block scales, before anything is written.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "checkpoint/quantized_folder.hpp"
#include "checkpoint/safetensors_writer.hpp"
#include "core/result.hpp"

namespace microscale {

/// One tensor of the output.
struct RepairedTensor {
  const ModelTensor* source = nullptr;        // whose bytes it has, but for what follows
  const QuantizedModule* rescaled = nullptr;  // its codes or scales, for another global scale
  double ratio = 1;                           // of the block scales, after to before
  std::vector<std::uint8_t> bytes;            // in the place of the source's; empty: none
};

struct RepairedFile {
  std::string name;
  bool side = false;  // beside the model: not in the index
  SafetensorsLayout layout;
  std::vector<RepairedTensor> tensors;  // as layout.tensors
};

struct RepairPlan {
  QuantizedFolder folder;  // without what is dropped
  std::vector<RepairedFile> files;
  std::string config_text;           // empty: none
  std::vector<std::string> changes;  // one sentence each; none: nothing is to be done
};

/// Reads block scales of fused layers whose global scales differ. Fails (`bad_input`) where the
/// result would not pass verify's rules on headers, naming the first that it would break, and
/// throws Error where a file cannot be read.
Result<RepairPlan> plan_repair(ModelFolder model);

}  // namespace microscale
