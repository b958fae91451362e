#include "checkpoint/containers/container_writer.hpp"

#include "checkpoint/containers/modelopt_writer.hpp"

namespace microscale {
namespace {

class CompressedTensorsWriter final : public ContainerWriter {
 public:
  Status check(const QuantizeModelOptions&) const override { return success(); }

  LayerTensors layer(const LayerScheme& scheme, std::string_view module, std::int64_t rows,
                     std::int64_t cols) const override {
    return compressed_layer(scheme, module, rows, cols);
  }

  bool stores_divisors() const override { return true; }

  Result<Descriptions> describe(std::string_view config_text, const std::vector<LayerGroup>& groups,
                                const std::vector<std::string>& ignore,
                                const std::vector<std::string>&) const override {
    auto config = with_quantization_config(config_text, groups, ignore);
    if (!config) return config.failure();
    return Descriptions{std::move(config.value()), {}};
  }
};

}  // namespace

void ContainerWriter::write_tile(const CodedTile& tile, const LayerPlaces& places,
                                 std::vector<std::uint8_t>&, const WriteBytes& write) const {
  const FormatInfo& format = info(tile.format);
  const std::int64_t start = tile.tile.row * tile.cols + tile.tile.col;
  write(places.codes + static_cast<std::uint64_t>(code_bytes(format, start)), tile.codes);
  write(places.scales + static_cast<std::uint64_t>(start / format.block), tile.scales);
}

const ContainerWriter& writer_of(Container container) {
  static const CompressedTensorsWriter compressed_tensors;
  static const ModelOptWriter modelopt;
  if (container == Container::modelopt) return modelopt;
  return compressed_tensors;
}

std::string_view to_string(Container container) {
  return container == Container::modelopt ? "modelopt" : "compressed-tensors";
}

std::optional<Container> parse_container(std::string_view name) {
  for (const Container container : {Container::compressed_tensors, Container::modelopt}) {
    if (name == to_string(container)) return container;
  }
  return std::nullopt;
}

}  // namespace microscale
