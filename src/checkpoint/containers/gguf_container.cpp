#include "checkpoint/containers/gguf_container.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "checkpoint/containers/gguf_pack.hpp"
#include "checkpoint/containers/gguf_relaid_weight.hpp"

namespace microscale {

Status GgufContainer::check(const QuantizeModelOptions& options) const {
  const auto refuse = [](const std::string& message) {
    return Failure{ErrorCode::invalid_argument, "quantize: " + message};
  };
  std::vector<WeightFormat> formats{main_format(options)};
  for (const UseFormat& use : options.use) formats.push_back(use.format);
  const auto other = std::find_if(formats.begin(), formats.end(),
                                  [](WeightFormat format) { return !gguf_type_of(format); });
  if (other != formats.end()) {
    return refuse(fmt::format("GGUF files hold no {}; choose nvfp4 or mxfp4", to_string(*other)));
  }
  if (!options.output.empty() && options.output.extension() != ".gguf") {
    return refuse(fmt::format("a GGUF file has a name that ends in .gguf, and '{}' does not",
                              options.output.string()));
  }
  if (options.activations != Activations::dense || !options.input_scales.empty()) {
    return refuse(
        "a GGUF file says nothing about the inputs of layers: llama.cpp decides what it computes "
        "with; leave out --activations and --input-scales");
  }
  return success();
}

bool GgufContainer::holds(WeightFormat format) const { return gguf_type_of(format).has_value(); }

std::string GgufContainer::obstacle(WeightFormat format, std::int64_t, std::int64_t cols) const {
  const auto type = gguf_type_of(format);
  const std::int64_t block = type ? info(*type).block : 1;
  return cols % block == 0 ? "" : fmt::format("K = {} is no multiple of {}", cols, block);
}

LayerTensors GgufContainer::layer(const LayerScheme& scheme, std::string_view module,
                                  std::int64_t rows, std::int64_t cols) const {
  LayerTensors layer;
  const auto row_bytes = gguf_block_bytes(*gguf_type_of(scheme.format), cols);
  layer.codes = {fmt::format("{}.weight", module),
                 StoredType::u8,
                 {rows, static_cast<std::int64_t>(row_bytes)}};
  if (scheme.format == WeightFormat::nvfp4) {
    layer.global_scale = {fmt::format("{}.scale", module), StoredType::f32, {1}};
  }
  return layer;
}

void GgufContainer::write_tile(const CodedTile& tile, const LayerPlaces& places,
                               std::vector<std::uint8_t>& scratch, const TileOutput& output) const {
  const GgufType type = *gguf_type_of(*weight_format_of(tile.format));
  const std::uint64_t bytes = gguf_block_bytes(type, tile.tile.elements());
  if (scratch.size() < bytes) scratch.resize(bytes);
  const auto blocks = std::span(scratch).first(bytes);
  pack_gguf_blocks(type, tile.codes, tile.scales, blocks);
  const auto place = [&](std::int64_t row) {
    return places.codes + gguf_block_bytes(type, row * tile.cols + tile.tile.col);
  };
  if (places.head_rows == 0) {
    output.write(place(tile.tile.row), blocks);
    return;
  }
  const std::size_t row_bytes = bytes / static_cast<std::uint64_t>(tile.tile.rows);
  for (std::int64_t row = 0; row < tile.tile.rows; ++row) {
    output.write(place(rotary_row(tile.tile.row + row, places.head_rows)),
                 blocks.subspan(static_cast<std::size_t>(row) * row_bytes, row_bytes));
  }
}

Result<Descriptions> GgufContainer::describe(std::string_view config_text,
                                             const std::vector<LayerGroup>&,
                                             const std::vector<std::string>&,
                                             const std::vector<std::string>&) const {
  return Descriptions{std::string(config_text), {}};
}

}  // namespace microscale
