// verify --source: a quantized folder against the model it was made of. Whether codes are the
// nearest for their scales, which scale rule the scales follow, whether the global scale was
// applied, and whether what was to be copied was.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/finding.hpp"
#include "checkpoint/quantized_folder.hpp"
#include "microscale/checkpoint.hpp"

namespace microscale {

/// Of one quantized weight.
struct SourceTensor {
  std::string name;
  std::int64_t elements = 0;
  std::int64_t not_nearest = 0;  // codes that another code beats, for the scale they have
  std::string rule;              // that most of the looked-at scales follow
  double rule_share = 0;         // of them
  double ratio = 1;              // the stored values are that many times those of the original;
                                 // negative: with the sign turned
  double relative_mse = 0;
};

struct SourceAnswer {
  std::vector<SourceTensor> tensors;  // worst relative_mse first
  std::int64_t copies = 0;            // dense tensors that are equal
};

/// Adds to `findings`. Scales are held against the rules in a sample of each tensor, codes in all
/// of it. Throws Error where the original cannot be opened.
SourceAnswer verify_source(const QuantizedFolder& folder, const std::filesystem::path& original,
                           int threads, const ProgressCallback& progress, Findings& findings);

}  // namespace microscale
