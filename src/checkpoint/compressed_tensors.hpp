// How compressed-tensors puts a quantized linear layer on disk: which tensors, and the
// quantization_config that makes loaders look for them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/safetensors_writer.hpp"
#include "core/result.hpp"
#include "checkpoint/weight_format.hpp"
#include "microscale/checkpoint.hpp"

namespace microscale {

/// What engines do with the inputs of a layer.
enum class Inputs : std::uint8_t {
  dense,
  dynamic,  // quantize them in blocks, with nothing stored
  scaled,   // the same with a global scale that is stored: NVFP4
};

/// What a quantized layer is to a loader.
struct LayerScheme {
  LayerScheme(WeightFormat weights, Inputs activations = Inputs::dense)
      : format(weights), inputs(activations) {}
  /// Of blocks that a container holds.
  LayerScheme(Format blocks, Inputs activations = Inputs::dense)
      : LayerScheme(weight_format_of(blocks).value(), activations) {}
  WeightFormat format;
  Inputs inputs;
};

/// Layers of one scheme: by name, by "re:" and an expression, or by class.
struct LayerGroup {
  LayerScheme scheme;
  std::vector<std::string> targets;
  std::vector<std::string> layers{};  // by name, all experts of a layer as one; of a mixed model
};

/// Of the layers that get `format`.
LayerScheme scheme_of(const QuantizeModelOptions& options, WeightFormat format);

/// A tensor that says the same of every weight: a marker.
struct NamedBytes {
  PlannedTensor tensor;
  std::string bytes;
};

/// The tensors of one layer, by role. The name of one that it has not is empty. `scales`: of
/// blocks, or BF16 of each row.
struct LayerTensors {
  PlannedTensor codes, scales, global_scale, input_scale;
  std::vector<NamedBytes> constants{};
};

/// Of the weight [rows, cols] of `module`; cols is a multiple of the block.
LayerTensors compressed_layer(const LayerScheme& scheme, std::string_view module, std::int64_t rows,
                              std::int64_t cols);

/// What the global scale tensor holds: the divisor, rounded to FP32, of a decode multiplier.
float stored_global_scale(float decode_multiplier);

/// Success, or why no checkpoint can hold what the options ask for.
Status check_container(const QuantizeModelOptions& options);

/// `config_text` (empty: none) with quantization_config added and the model's type (torch_dtype, or
/// dtype where that stands) set to bfloat16, what loaders decompress to; every other key stays, in
/// order. `ignore`: names of the linear layers left as they are. At least one group.
Result<std::string> with_quantization_config(std::string_view config_text,
                                             const std::vector<LayerGroup>& groups,
                                             const std::vector<std::string>& ignore);

/// Of layers that are all alike.
Result<std::string> with_quantization_config(std::string_view config_text,
                                             const LayerScheme& scheme,
                                             const std::vector<std::string>& ignore);

}  // namespace microscale
