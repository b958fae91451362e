// How compressed-tensors puts a quantized linear layer on disk: which tensors, and the
// quantization_config that makes loaders look for them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/safetensors_writer.hpp"
#include "core/result.hpp"
#include "microscale/checkpoint.hpp"
#include "microscale/format.hpp"

namespace microscale {

/// What a quantized layer is to a loader.
struct LayerScheme {
  LayerScheme(Format weights, Activations inputs = Activations::dense)
      : format(weights), activations(inputs) {}
  Format format;
  Activations activations;
};

/// The tensors of one layer, by role. Without a global scale that name is empty.
struct CompressedLayer {
  PlannedTensor codes, scales, global_scale;
};

/// Of the weight [rows, cols] of `module`; cols is a multiple of the block.
CompressedLayer compressed_layer(Format format, std::string_view module, std::int64_t rows,
                                 std::int64_t cols);

/// What the global scale tensor holds: the divisor, rounded to FP32, of a decode multiplier.
float stored_global_scale(float decode_multiplier);

/// Success, or why no checkpoint can hold layers of the scheme.
Status check_container(const LayerScheme& scheme);

/// `config_text` (empty: none) with quantization_config added and the model's type (torch_dtype, or
/// dtype where that stands) set to bfloat16, what loaders decompress to; every other key stays, in
/// order. `ignore`: names of the linear layers left as they are.
Result<std::string> with_quantization_config(std::string_view config_text,
                                             const LayerScheme& scheme,
                                             const std::vector<std::string>& ignore);

}  // namespace microscale
