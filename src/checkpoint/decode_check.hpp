// What dequantize asks before it writes a byte: whether every quantized weight can be decoded, and
// whether all values are numbers of the type they are written in.
#pragma once

#include "checkpoint/classifier.hpp"
#include "checkpoint/quantized_folder.hpp"
#include "core/result.hpp"
#include "microscale/checkpoint.hpp"

namespace microscale {

/// A failure where weights are quantized in a way that is not decoded here, or are damaged: every
/// kind with its count, its first weight, and what helps.
Status check_decodable(const QuantizedFolder& folder, const Classifier& classifier);

/// Reads the model. A failure, in the words of verify, where scales or codes are NaN (unless
/// `allow_nan`), and where values would become infinite as F16.
Status check_values(const QuantizedFolder& folder, const DequantizeModelOptions& options,
                    const ProgressCallback& progress);

}  // namespace microscale
