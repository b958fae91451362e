// Two checkpoints of one model against each other: what quantizing (or anything else) changed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/quantized_folder.hpp"
#include "microscale/checkpoint.hpp"
#include "report/model_report.hpp"

namespace microscale {

struct ModelComparison {
  /// Tensors that both have, by name: those with values measured, the others with the reason why
  /// not
  /// ("identical", "I64 values differ"). bytes_before are those of the original.
  ModelReport report;
  std::vector<std::string> only_in_original;  // names, sorted
  std::vector<std::string> only_in_other;
  std::vector<std::string> different_shapes;  // one sentence each
  /// Quantized in the other although quantize keeps it by default, whatever the error.
  struct Kept {
    std::string name;    // of the weight
    std::string reason;  // "router", "embedding", ...
  };
  std::vector<Kept> should_be_kept;  // by name
  std::int64_t identical = 0;        // the same bytes in the same type
  bool swapped = false;  // the first is quantized and the second is not: the second is the original
};

/// By what constant factor the other's values differ from the original's, if they do: their
/// directions agree (a cosine of 0.95 or more, or of -0.95 or less) and the factor is below 0.8 or
/// above 1.25.
std::optional<double> constant_ratio(const ErrorSums& error);

/// Measures tensors of equal names against each other, quantized ones by their decoded values.
/// Experts that one holds fused and the other split are measured one by one.
/// `first` is the original, unless only `first` is quantized. Clipped: larger than the largest
/// value the block of the other can hold. The same figures at any number of threads. Throws Error,
/// also when no name is in both.
ModelComparison compare_models(const QuantizedFolder& first, const QuantizedFolder& second,
                               int threads = 0, const ProgressCallback& progress = {});

}  // namespace microscale
