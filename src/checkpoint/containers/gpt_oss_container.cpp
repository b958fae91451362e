#include "checkpoint/containers/gpt_oss_container.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "checkpoint/config_json.hpp"

namespace microscale {
namespace {

constexpr std::int64_t block = 32, block_bytes = 16;

}  // namespace

Status GptOssContainer::check(const QuantizeModelOptions& options) const {
  const auto refuse = [](const char* message) {
    return Failure{ErrorCode::invalid_argument, std::string("quantize: ") + message};
  };
  if (options.format != Format::mxfp4 || !options.use.empty()) {
    return refuse(
        "gpt-oss's layout holds mxfp4 and nothing else; give --format mxfp4 and no --use, or "
        "another container");
  }
  if (options.activations != Activations::dense || !options.input_scales.empty()) {
    return refuse(
        "gpt-oss's layout says nothing about the inputs of layers; leave out --activations and "
        "--input-scales");
  }
  return success();
}

LayerTensors GptOssContainer::layer(const LayerScheme& scheme, std::string_view module,
                                    std::int64_t rows, std::int64_t cols) const {
  return experts(scheme, module, 1, rows, cols);
}

LayerTensors GptOssContainer::experts(const LayerScheme&, std::string_view module,
                                      std::int64_t experts, std::int64_t rows,
                                      std::int64_t cols) const {
  LayerTensors layer;
  layer.codes = {
      fmt::format("{}_blocks", module), StoredType::u8, {experts, rows, cols / block, block_bytes}};
  layer.scales = {fmt::format("{}_scales", module), StoredType::u8, {experts, rows, cols / block}};
  return layer;
}

Result<Descriptions> GptOssContainer::describe(std::string_view config_text,
                                               const std::vector<LayerGroup>&,
                                               const std::vector<std::string>&,
                                               const std::vector<std::string>&) const {
  auto config =
      with_quantization(config_text, {{"quant_method", "mxfp4"},
                                      {"modules_to_not_convert",
                                       {"model.layers.*.self_attn", "model.layers.*.mlp.router",
                                        "model.embed_tokens", "lm_head"}}});
  if (!config) return config.failure();
  return Descriptions{std::move(config.value()), {}};
}

}  // namespace microscale
