// Experts as gpt-oss was published: "P_blocks" U8 [E, N, K / 32, 16] and "P_scales" U8 [E, N, K /
// 32] in place of P [E, K, N].
#pragma once

#include "checkpoint/containers/container_writer.hpp"

namespace microscale {

class GptOssContainer final : public ContainerWriter {
 public:
  Status check(const QuantizeModelOptions& options) const override;
  bool holds(WeightFormat format) const override { return format == WeightFormat::mxfp4; }
  /// Of one expert.
  LayerTensors layer(const LayerScheme& scheme, std::string_view module, std::int64_t rows,
                     std::int64_t cols) const override;
  LayerTensors experts(const LayerScheme& scheme, std::string_view module, std::int64_t experts,
                       std::int64_t rows, std::int64_t cols) const override;
  bool stores_divisors() const override { return false; }
  /// The quantization_config that the published models have.
  Result<Descriptions> describe(std::string_view config_text, const std::vector<LayerGroup>& groups,
                                const std::vector<std::string>& ignore,
                                const std::vector<std::string>& modules) const override;
};

}  // namespace microscale
