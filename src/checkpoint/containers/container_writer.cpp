#include "checkpoint/containers/container_writer.hpp"

#include <algorithm>
#include <iterator>

#include "checkpoint/containers/comfyui_container.hpp"
#include "checkpoint/containers/gguf_container.hpp"
#include "checkpoint/containers/gpt_oss_container.hpp"
#include "checkpoint/containers/modelopt_writer.hpp"

namespace microscale {
namespace {

constexpr Container all_containers[] = {Container::compressed_tensors, Container::modelopt,
                                        Container::gguf, Container::comfyui, Container::gpt_oss};

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

LayerTensors ContainerWriter::experts(const LayerScheme& scheme, std::string_view module,
                                      std::int64_t experts, std::int64_t rows,
                                      std::int64_t cols) const {
  return layer(scheme, module, experts * rows, cols);
}

void ContainerWriter::write_tile(const CodedTile& tile, const LayerPlaces& places,
                                 std::vector<std::uint8_t>&, const TileOutput& output) const {
  const FormatInfo& format = info(tile.format);
  const std::int64_t start = tile.tile.row * tile.cols + tile.tile.col;
  output.write(places.codes + static_cast<std::uint64_t>(code_bytes(format, start)), tile.codes);
  output.write(places.scales + static_cast<std::uint64_t>(start / format.block), tile.scales);
}

const ContainerWriter& writer_of(Container container) {
  static const CompressedTensorsWriter compressed_tensors;
  static const ModelOptWriter modelopt;
  static const GgufContainer gguf;
  static const ComfyUiContainer comfyui;
  static const GptOssContainer gpt_oss;
  switch (container) {
    case Container::modelopt:
      return modelopt;
    case Container::gguf:
      return gguf;
    case Container::comfyui:
      return comfyui;
    case Container::gpt_oss:
      return gpt_oss;
    case Container::compressed_tensors:
      break;
  }
  return compressed_tensors;
}

std::string_view to_string(Container container) {
  switch (container) {
    case Container::modelopt:
      return "modelopt";
    case Container::gguf:
      return "gguf";
    case Container::gpt_oss:
      return "gpt-oss";
    case Container::comfyui:
      return "comfyui";
    case Container::compressed_tensors:
      break;
  }
  return "compressed-tensors";
}

std::optional<Container> parse_container(std::string_view name) {
  const auto found =
      std::find_if(std::begin(all_containers), std::end(all_containers),
                   [&](Container container) { return name == to_string(container); });
  return found == std::end(all_containers) ? std::nullopt : std::optional(*found);
}

std::string container_names() {
  std::string names;
  for (const Container container : all_containers) {
    names += (names.empty() ? "" : ", ") + std::string(to_string(container));
  }
  return names;
}

Container container_for(const std::filesystem::path& output) {
  if (output.extension() == ".gguf") return Container::gguf;
  return output.extension() == ".safetensors" ? Container::comfyui : Container::compressed_tensors;
}

}  // namespace microscale
