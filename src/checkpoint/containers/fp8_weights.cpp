// FP8 weights with scales beside them, as DeepSeek, Qwen, FBGEMM, compressed-tensors
// (float-quantized) and ModelOpt (FP8) write them: one scale per tensor, row or block.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <nlohmann/json.hpp>

#include "checkpoint/config_json.hpp"
#include "checkpoint/containers/block_weight.hpp"
#include "checkpoint/containers/containers.hpp"
#include "checkpoint/containers/scaled_weight.hpp"
#include "checkpoint/json.hpp"
#include "checkpoint/module_match.hpp"
#include "checkpoint/quantization_config.hpp"
#include "checkpoint/quantization_places.hpp"
#include "checkpoint/tensor_name.hpp"
#include "formats/integers.hpp"

namespace microscale {
namespace {

using Block = std::pair<std::int64_t, std::int64_t>;

// What scales are called: endings of the weight's own name, and of its module.
constexpr std::array<std::string_view, 2> beside_weight{"_scale_inv", "_scale"};
constexpr std::array<std::string_view, 2> beside_module{".scale", ".scale_weight"};
// Of the activations, which a dense model does not have.
constexpr std::array<std::string_view, 6> of_activations{
    ".input_scale", ".input_scale_ub",     ".scale_input",
    ".act_scale",   ".input_global_scale", ".weight_zero_point"};

// "weight_block_size": [128, 128] of quantization_config.
std::optional<Block> block_of_config(const ModelFolder& model) {
  if (!model.config_text) return std::nullopt;
  const auto tree = parse_config(*model.config_text);
  if (!tree || !tree.value().is_object()) return std::nullopt;
  const auto* config = find_quantization(tree.value());
  if (!config || !config->is_object()) return std::nullopt;
  const auto* size = member(*config, "weight_block_size");
  if (!size || !size->is_array() || size->size() != 2) return std::nullopt;
  for (const auto& number : *size) {
    if (!number.is_number_integer() || number.get<std::int64_t>() <= 0) return std::nullopt;
  }
  return Block{(*size)[0].get<std::int64_t>(), (*size)[1].get<std::int64_t>()};
}

// What config.json says of the scales of a layer, in the words of its groups.
class ToldScales {
 public:
  explicit ToldScales(const ModelFolder& model) {
    if (!model.config_text || !model.whole_folder) return;
    auto config = parse_quantization_config(*model.config_text);
    if (!config || !config.value()) return;
    config_ = std::move(config.value());
    expectations_.emplace(*config_);
  }
  ToldScales(const ToldScales&) = delete;
  ToldScales& operator=(const ToldScales&) = delete;

  /// "one scale per row" if it says that and the grid is another; else nothing.
  std::optional<std::string_view> contradicting(std::string_view module,
                                                const ScaleGrid& grid) const {
    const QuantizationGroup* group =
        expectations_ ? expectations_->of(module, true).group : nullptr;
    if (!group || group->format) return std::nullopt;
    const bool all_rows = grid.block_rows >= grid.rows, all_cols = grid.block_cols >= grid.cols;
    const auto says = [&](std::string_view words) { return group->scheme.ends_with(words); };
    if (says(per_row) && !(all_cols && grid.block_rows == 1)) return per_row;
    if (says(per_tensor) && !(all_cols && all_rows)) return per_tensor;
    return std::nullopt;
  }

 private:
  static constexpr std::string_view per_row = "one scale per row",
                                    per_tensor = "one scale per tensor";
  std::optional<QuantizationConfig> config_;
  std::optional<ModuleExpectations> expectations_;
};

bool is_fp8(StoredType type) { return type == StoredType::f8_e4m3 || type == StoredType::f8_e5m2; }

class Finder {
 public:
  explicit Finder(ContainerScan& scan)
      : scan_(scan), block_(block_of_config(scan.model())), told_(scan.model()) {}

  void look_at(const ModelTensor& weight) {
    const TensorEntry& entry = *weight.entry;
    const std::vector<const ModelTensor*> scales = scales_of(entry.name);
    if (scales.empty()) return;
    const ModelTensor& scale = *scales.front();
    // compressed-tensors' MXFP8, which quantized_folder.hpp sorts.
    if (scale.entry->type == StoredType::u8 && scale.name().ends_with(".weight_scale")) return;
    std::vector<const ModelTensor*> parts{&weight};
    parts.insert(parts.end(), scales.begin(), scales.end());
    if (scales.size() > 1) {
      scan_.report("extra-tensor", scale,
                   fmt::format("the weight has {} too, so which of the scales counts is unclear; "
                               "remove one of them",
                               in_quotes(scales[1]->name())),
                   parts);
      return;
    }
    if (!is_scale_type(scale.entry->type)) {
      scan_.report("unknown-format", scale,
                   fmt::format("scales of FP8 weights are F32, BF16, F16 or F8_E8M0, this is {}",
                               described(*scale.entry)),
                   parts);
      return;
    }
    const auto grid = fit_scale_grid(entry.shape, scale.entry->shape, block_);
    if (!grid) {
      scan_.report("wrong-shape", scale,
                   fmt::format("scales of {} fit no blocks of the weight {}, which would have one "
                               "per tensor, per row, or {}; quantize the model again",
                               described(*scale.entry), described(entry), usual_shape(entry)),
                   parts);
      return;
    }
    if (block_ && !agrees(*grid)) {
      scan_.report("wrong-shape", scale,
                   fmt::format("it is {}, {}, but config.json says blocks of {} x {}, which the "
                               "weight {} has [{}] of; make them agree",
                               described(*scale.entry), grid->description(), block_->first,
                               block_->second, described(entry), blocks_of(entry, *block_)),
                   parts);
      return;
    }
    const std::string_view module = module_of(entry.name);
    if (const auto told = told_.contradicting(module, *grid)) {
      scan_.report("wrong-shape", scale,
                   fmt::format("it is {}, {}, but config.json says {}; make them agree",
                               described(*scale.entry), grid->description(), *told),
                   parts);
      return;
    }
    for (const std::string_view ending : of_activations) {
      const ModelTensor* part = scan_.find(std::string(module).append(ending));
      if (part) parts.push_back(part);
    }
    if (is_mxfp8(entry, *scale.entry, *grid)) {
      scan_.add(make_row_blocks({entry.name, entry.shape, value_type_of(Format::mxfp8_e4m3),
                                 std::string(info(Format::mxfp8_e4m3).name), std::move(parts)},
                                {.format = Format::mxfp8_e4m3}, scan_.model()));
      return;
    }
    const char* codes = entry.type == StoredType::f8_e4m3 ? "FP8 E4M3" : "FP8 E5M2";
    scan_.add(
        make_scaled_weight({entry.name, entry.shape, StoredType::f32,
                            fmt::format("{}, {}", codes, grid->description()), std::move(parts)},
                           *grid, scan_.model()));
  }

 private:
  std::vector<const ModelTensor*> scales_of(const std::string& name) const {
    std::vector<const ModelTensor*> found;
    const auto look_for = [&](std::string wanted) {
      if (const ModelTensor* scale = scan_.find(wanted)) found.push_back(scale);
    };
    for (const std::string_view ending : beside_weight) look_for(name + std::string(ending));
    const std::string_view module = module_of(name);
    if (module.size() == name.size()) return found;
    for (const std::string_view ending : beside_module) {
      look_for(std::string(module).append(ending));
    }
    return found;
  }

  // A tensor or a row of scales of a model of blocks is no mistake; blocks of another size are.
  bool agrees(const ScaleGrid& grid) const {
    const auto fits = [](std::int64_t size, std::int64_t block, std::int64_t told) {
      return block == told || (block == size && size <= told);
    };
    return grid.block_cols >= grid.cols || (fits(grid.rows, grid.block_rows, block_->first) &&
                                            fits(grid.cols, grid.block_cols, block_->second));
  }

  // Blocks of ours under other names.
  static bool is_mxfp8(const TensorEntry& codes, const TensorEntry& scale, const ScaleGrid& grid) {
    const std::int64_t block = info(Format::mxfp8_e4m3).block;
    return codes.type == StoredType::f8_e4m3 && bits_per_element(scale.type) == 8 &&
           grid.block_rows == 1 && grid.block_cols == block && grid.cols % block == 0 &&
           !grid.shared;
  }

  static std::string blocks_of(const TensorEntry& entry, const Block& block) {
    const std::size_t rank = entry.shape.size();
    return fmt::format("{}, {}", ceil_div(entry.shape[rank - 2], block.first),
                       ceil_div(entry.shape[rank - 1], block.second));
  }

  std::string usual_shape(const TensorEntry& entry) const {
    const Block block = block_.value_or(Block{128, 128});
    return fmt::format("[{}] of {} x {} blocks", blocks_of(entry, block), block.first,
                       block.second);
  }

  ContainerScan& scan_;
  std::optional<Block> block_;
  ToldScales told_;
};

}  // namespace

void find_fp8_weights(ContainerScan& scan) {
  Finder finder(scan);
  for (const ModelTensor& tensor : scan.model().tensors) {
    const TensorEntry& entry = *tensor.entry;
    const std::size_t rank = entry.shape.size();
    if (!is_fp8(entry.type) || (rank != 2 && rank != 3) || entry.bytes() == 0) continue;
    if (scan.find(entry.name)) finder.look_at(tensor);
  }
}

}  // namespace microscale
