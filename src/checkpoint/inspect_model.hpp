// What is in a checkpoint: every tensor in a line, or one tensor in detail.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/quantized_folder.hpp"
#include "checkpoint/weight_reader.hpp"
#include "microscale/checkpoint.hpp"
#include "report/model_report.hpp"

namespace microscale {

struct TensorSummary {
  std::string name;
  std::string file;    // that holds it, or its codes
  std::string format;  // "nvfp4", ..., or the stored type: "BF16"
  bool quantized = false;
  std::vector<std::int64_t> shape;
  std::int64_t elements = 0;
  std::uint64_t bytes = 0;            // codes, scales and global scale together
  std::optional<float> global_scale;  // NVFP4 decode multiplier
};

struct ModelSummary {
  std::vector<TensorSummary> tensors;                         // by name
  std::vector<std::string> notes;                             // oddities, one sentence each
  std::vector<std::pair<std::string, std::string>> metadata;  // of a GGUF file, cut short
  std::size_t files = 0;
  std::uint64_t bytes = 0;
  std::int64_t elements = 0;
  std::uint64_t quantized_bytes = 0;
  std::int64_t quantized_elements = 0;
};

ModelSummary summarize_model(const QuantizedFolder& folder);

/// One block, decoded.
struct BlockDetail {
  std::uint8_t scale_code = 0;
  float scale = 0;  // what a code is multiplied by, global scale included
  std::vector<std::uint8_t> codes;
  std::vector<float> values;
};

struct TensorDetail {
  TensorSummary summary;
  bool has_values = false;          // false: integers and the like; nothing below is known then
  float smallest = 0, largest = 0;  // of the finite values
  std::int64_t zeros = 0;           // +0 and -0
  std::int64_t non_finite = 0;      // NaN and infinite ones
  double mean_square = 0;           // of the finite values
  std::vector<float> first_values;  // at most 32
  std::int64_t blocks = 0;          // 0: not quantized; then the rest is empty
  CodeHistogram scale_codes{};
  CodeHistogram element_codes{};
  std::optional<BlockDetail> first_block;
};

/// Reads all of one tensor. `tensor` is of `folder`. Throws Error.
TensorDetail inspect_tensor(const QuantizedFolder& folder, const LogicalTensor& tensor,
                            int threads = 0, const ProgressCallback& progress = {});

/// Value of an element code of the format, without any scale; NaN where the code is.
float element_value(Format format, std::uint8_t code);
/// Value of a block scale, without the global scale.
float scale_value(Format format, std::uint8_t code);

}  // namespace microscale
