// Layers as ComfyUI's single files have them: a marker for each, the high nibble the even element,
// scales in 128x4 tiles.
#pragma once

#include "checkpoint/containers/container_writer.hpp"

namespace microscale {

class ComfyUiContainer final : public ContainerWriter {
 public:
  Status check(const QuantizeModelOptions& options) const override;
  bool holds(WeightFormat format) const override;
  std::string obstacle(WeightFormat format, std::int64_t rows, std::int64_t cols) const override;
  LayerTensors layer(const LayerScheme& scheme, std::string_view module, std::int64_t rows,
                     std::int64_t cols) const override;
  void write_tile(const CodedTile& tile, const LayerPlaces& places,
                  std::vector<std::uint8_t>& scratch, const TileOutput& output) const override;
  bool stores_divisors() const override { return false; }
  /// Markers beside the weights say it all.
  Result<Descriptions> describe(std::string_view config_text, const std::vector<LayerGroup>& groups,
                                const std::vector<std::string>& ignore,
                                const std::vector<std::string>& modules) const override;
};

}  // namespace microscale
