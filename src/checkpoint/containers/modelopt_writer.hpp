// ModelOpt's layout of quantized layers, as its unified export has it.
#pragma once

#include "checkpoint/containers/container_writer.hpp"

namespace microscale {

class ModelOptWriter final : public ContainerWriter {
 public:
  Status check(const QuantizeModelOptions& options) const override;
  bool holds(WeightFormat format) const override { return format != WeightFormat::mxfp4; }
  LayerTensors layer(const LayerScheme& scheme, std::string_view module, std::int64_t rows,
                     std::int64_t cols) const override;
  bool stores_divisors() const override { return false; }
  Result<Descriptions> describe(std::string_view config_text, const std::vector<LayerGroup>& groups,
                                const std::vector<std::string>& ignore,
                                const std::vector<std::string>& modules) const override;
};

/// An ignore list as ModelOpt spells it: names and fnmatch patterns. vLLM also leaves out every
/// layer in whose name an entry merely occurs ("a.gate" in "a.gate_up_proj"), so an entry that
/// occurs in one of `modules`, or in the name of a layer that engines make of them, is written as a
/// pattern that does not ("a.gat[e]").
std::vector<std::string> modelopt_excludes(const std::vector<std::string>& ignore,
                                           const std::vector<std::string>& modules);

}  // namespace microscale
