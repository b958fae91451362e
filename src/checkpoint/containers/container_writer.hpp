// What a quantized layer is on disk: its tensors, what its scales hold, and the files that tell
// loaders. One class for each container that quantize writes.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/compressed_tensors.hpp"
#include "core/result.hpp"
#include "microscale/checkpoint.hpp"

namespace microscale {

/// Files that describe quantized layers.
struct Descriptions {
  std::string config;                                       // text of config.json
  std::vector<std::pair<std::string, std::string>> others;  // names and texts beside it
};

class ContainerWriter {
 public:
  virtual ~ContainerWriter() = default;

  /// Success, or why the container cannot hold what the options ask for.
  virtual Status check(const QuantizeModelOptions& options) const = 0;

  /// Of the weight [rows, cols] of `module`; cols is a multiple of the block.
  virtual LayerTensors layer(const LayerScheme& scheme, std::string_view module, std::int64_t rows,
                             std::int64_t cols) const = 0;

  /// Whether global scales divide. They hold 1 / (decode multiplier) then, else the multiplier.
  virtual bool stores_divisors() const = 0;

  /// `config_text` of the input (empty: none). `ignore`: the linear layers left as they are, names
  /// or "re:" and an expression. `modules`: the quantized ones. At least one group.
  virtual Result<Descriptions> describe(std::string_view config_text,
                                        const std::vector<LayerGroup>& groups,
                                        const std::vector<std::string>& ignore,
                                        const std::vector<std::string>& modules) const = 0;

  /// What the tensor of a global scale holds.
  float global_scale(float decode_multiplier) const {
    return stores_divisors() ? 1.0f / decode_multiplier : decode_multiplier;
  }
  /// What the tensor of an input's scale holds, for the largest magnitude.
  float input_scale(double amax) const {
    return static_cast<float>(stores_divisors() ? 2688.0 / amax : amax / 2688.0);
  }
};

const ContainerWriter& writer_of(Container container);

}  // namespace microscale
