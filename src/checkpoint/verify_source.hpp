// verify --source: a folder against the model it was made of. Whether codes are the nearest for
// their scales, which scale rule the scales follow, whether scales were applied, whether blocks
// were lost, and whether what was to be copied was.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/finding.hpp"
#include "checkpoint/quantized_folder.hpp"
#include "microscale/checkpoint.hpp"

namespace microscale {

/// A rule fits that gives so many of the scales; tools differ in last bits.
inline constexpr double fits_rule = 0.995;

/// Of one quantized weight, or one that was decoded again.
struct SourceTensor {
  std::string name;
  std::string coding;  // in words: "nvfp4", "FP8 E4M3, one scale per row", "BF16"
  std::int64_t elements = 0;
  std::int64_t not_nearest = 0;  // codes that another code beats, for the scale they have
  std::string rule;              // that most of the looked-at scales follow; empty where there are
                                 // no blocks of a format of ours
  double rule_share = 0;         // of them
  double ratio = 1;              // the stored values are that many times those of the original;
                                 // negative: with the sign turned
  double relative_mse = 0;
};

struct SourceAnswer {
  std::vector<SourceTensor> tensors;  // worst relative_mse first
  std::int64_t copies = 0;            // dense tensors that are equal
  std::int64_t decoded = 0;           // dense, with the values of a quantized model
};

/// Adds to `findings`. Scales are held against the rules in a sample of each tensor, codes in all
/// of it. Throws Error where the original cannot be opened.
SourceAnswer verify_source(const QuantizedFolder& folder, const std::filesystem::path& original,
                           int threads, const ProgressCallback& progress, Findings& findings);

}  // namespace microscale
