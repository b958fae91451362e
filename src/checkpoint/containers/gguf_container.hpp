// Layers as a GGUF file has them: blocks with their scales inside, and a scale for the whole tensor
// beside those of NVFP4.
#pragma once

#include "checkpoint/containers/container_writer.hpp"

namespace microscale {

class GgufContainer final : public ContainerWriter {
 public:
  Status check(const QuantizeModelOptions& options) const override;
  bool holds(WeightFormat format) const override;
  std::string obstacle(WeightFormat format, std::int64_t rows, std::int64_t cols) const override;
  /// `codes` has the scales of blocks too, as bytes [rows, bytes of a row].
  LayerTensors layer(const LayerScheme& scheme, std::string_view module, std::int64_t rows,
                     std::int64_t cols) const override;
  void write_tile(const CodedTile& tile, const LayerPlaces& places,
                  std::vector<std::uint8_t>& scratch, const TileOutput& output) const override;
  bool stores_divisors() const override { return false; }
  /// Metadata of the file says it all.
  Result<Descriptions> describe(std::string_view config_text, const std::vector<LayerGroup>& groups,
                                const std::vector<std::string>& ignore,
                                const std::vector<std::string>& modules) const override;
};

}  // namespace microscale
