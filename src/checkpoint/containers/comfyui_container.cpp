#include "checkpoint/containers/comfyui_container.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "formats/integers.hpp"
#include "layouts/tiled_128x4.hpp"

namespace microscale {
namespace {

// What loaders pad both sides of a weight to, by format. Weights here need none: how many rows of
// a padded weight count is not in the file.
std::int64_t side_of(WeightFormat format) { return format == WeightFormat::nvfp4 ? 16 : 32; }

}  // namespace

bool ComfyUiContainer::holds(WeightFormat format) const {
  return format == WeightFormat::nvfp4 || format == WeightFormat::mxfp8;
}

Status ComfyUiContainer::check(const QuantizeModelOptions& options) const {
  const auto refuse = [](const std::string& message) {
    return Failure{ErrorCode::invalid_argument, "quantize: " + message};
  };
  std::vector<WeightFormat> formats{main_format(options)};
  for (const UseFormat& use : options.use) formats.push_back(use.format);
  const auto other = std::find_if_not(formats.begin(), formats.end(),
                                      [&](WeightFormat format) { return holds(format); });
  if (other != formats.end()) {
    return refuse(
        fmt::format("ComfyUI loads no {} of ours; choose nvfp4 or mxfp8", to_string(*other)));
  }
  if (!options.output.empty() && options.output.extension() != ".safetensors") {
    return refuse(
        fmt::format("ComfyUI's models are single files that end in .safetensors, and '{}' does not",
                    options.output.string()));
  }
  if (options.activations != Activations::dense) {
    return refuse(
        "ComfyUI quantizes the inputs of these layers by itself where the GPU can; leave out "
        "--activations");
  }
  return success();
}

std::string ComfyUiContainer::obstacle(WeightFormat format, std::int64_t rows,
                                       std::int64_t cols) const {
  const std::int64_t side = side_of(format);
  if (rows % side != 0) return fmt::format("N = {} is no multiple of {}", rows, side);
  if (cols > tile_elements) return fmt::format("K = {} is above {}", cols, tile_elements);
  return "";
}

LayerTensors ComfyUiContainer::layer(const LayerScheme& scheme, std::string_view module,
                                     std::int64_t rows, std::int64_t cols) const {
  using namespace tiled_128x4;
  const bool nvfp4 = scheme.format == WeightFormat::nvfp4;
  const std::int64_t blocks = cols / info(*blocks_of(scheme.format)).block;
  LayerTensors layer;
  layer.codes = {fmt::format("{}.weight", module),
                 nvfp4 ? StoredType::u8 : StoredType::f8_e4m3,
                 {rows, nvfp4 ? cols / 2 : cols}};
  layer.scales = {
      fmt::format("{}.weight_scale", module),
      nvfp4 ? StoredType::f8_e4m3 : StoredType::u8,
      {ceil_div(rows, tile_lines) * tile_lines, ceil_div(blocks, tile_blocks) * tile_blocks}};
  if (nvfp4) layer.global_scale = {fmt::format("{}.weight_scale_2", module), StoredType::f32, {}};
  if (scheme.inputs == Inputs::scaled) {
    layer.input_scale = {fmt::format("{}.input_scale", module), StoredType::f32, {}};
  }
  std::string text = fmt::format(R"({{"format": "{}"}})", to_string(scheme.format));
  const auto length = static_cast<std::int64_t>(text.size());
  layer.constants.push_back(
      {{fmt::format("{}.comfy_quant", module), StoredType::u8, {length}}, std::move(text)});
  return layer;
}

void ComfyUiContainer::write_tile(const CodedTile& tile, const LayerPlaces& places,
                                  std::vector<std::uint8_t>& scratch,
                                  const TileOutput& output) const {
  using namespace tiled_128x4;
  const FormatInfo& format = info(tile.format);
  if (format.code_bits == 4) {
    for (std::uint8_t& pair : tile.codes) {
      pair = static_cast<std::uint8_t>(pair << 4 | pair >> 4);
    }
  }
  const std::int64_t begin = tile.tile.row, end = begin + tile.tile.rows;
  output.write(places.codes + static_cast<std::uint64_t>(code_bytes(format, begin * tile.cols)),
               tile.codes);
  // Tiles of scales have 128 lines, and tiles of work any number: what they share is changed where
  // it lies.
  const std::int64_t blocks = tile.cols / format.block;
  const auto group_bytes = static_cast<std::uint64_t>(bytes(tile_lines, blocks));
  for (std::int64_t row = begin; row < end;) {
    const std::int64_t first = row / tile_lines * tile_lines;
    const std::int64_t last = std::min(first + tile_lines, tile.rows), stop = std::min(last, end);
    const auto put = [&](std::span<std::uint8_t> group) {
      for (std::int64_t line = row; line < stop; ++line) {
        put_line(tile.scales.data() + (line - begin) * blocks, line - first, blocks, group.data());
      }
    };
    const std::uint64_t at =
        places.scales + static_cast<std::uint64_t>(first / tile_lines) * group_bytes;
    if (row == first && stop == last) {
      if (scratch.size() < group_bytes) scratch.resize(group_bytes);
      const auto group = std::span(scratch).first(group_bytes);
      std::fill(group.begin(), group.end(), std::uint8_t{0});
      put(group);
      output.write(at, group);
    } else {
      output.update(at, group_bytes, put);
    }
    row = stop;
  }
}

Result<Descriptions> ComfyUiContainer::describe(std::string_view, const std::vector<LayerGroup>&,
                                                const std::vector<std::string>&,
                                                const std::vector<std::string>&) const {
  return Descriptions{};
}

}  // namespace microscale
