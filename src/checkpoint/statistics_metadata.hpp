// What `microscale calibrate` says in the metadata of its file (docs/calibration.md).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "checkpoint/safetensors.hpp"
#include "core/result.hpp"

namespace microscale {

struct StatisticsMetadata {
  /// Modules without tensors of their own, and the module that reads the same input and has them.
  std::map<std::string, std::string> shares;
  /// How many tokens the statistics of a module are of.
  std::map<std::string, std::int64_t> tokens;
  /// Whether its Hessians were shrunk when they were made (of a rotated model).
  bool shrunk = false;
  /// Whether a token counts by the mean square of the gradient at the layers' outputs.
  bool by_gradients = false;
};

/// Nothing, of a file that is not of calibrate; a failure for one of a later version, or with
/// metadata that is no object of names.
Result<std::optional<StatisticsMetadata>> read_statistics_metadata(
    const SafetensorsMetadata& metadata);

}  // namespace microscale
