// Scales of weights whose codes are no blocks of our formats: FP8 with one for each tensor, row or
// block, the blocks of gpt-oss and DeepSeek V4.
#pragma once

#include <memory>
#include <span>

#include "checkpoint/containers/stored_weight.hpp"
#include "checkpoint/finding.hpp"
#include "checkpoint/quantized_folder.hpp"
#include "core/result.hpp"

namespace microscale {

/// FP8 codes without a scale and scales without codes, in a folder that has scales elsewhere or
/// whose config.json speaks of quantized weights.
void verify_scale_parts(const QuantizedFolder& folder, Findings& findings);

/// Negative scales, and scales of 0 over codes that are not: what they stand for is lost. Reads
/// scales, and codes under those of 0; throws Error where a file cannot be read.
void verify_scales(const ModelFolder& model, std::span<const std::unique_ptr<StoredWeight>> weights,
                   Findings& findings);

/// The first of these as a failure of `command`.
Status refuse_bad_scales(const ModelFolder& model,
                         std::span<const std::unique_ptr<StoredWeight>> weights,
                         std::string_view command);

}  // namespace microscale
