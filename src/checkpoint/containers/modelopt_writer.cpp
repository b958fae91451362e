#include "checkpoint/containers/modelopt_writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "checkpoint/config_json.hpp"
#include "checkpoint/fused_groups.hpp"
#include "checkpoint/modelopt_config.hpp"
#include "microscale/version.hpp"

namespace microscale {
namespace {

using Json = nlohmann::ordered_json;

std::string_view algorithm_of(const LayerScheme& scheme) {
  switch (scheme.format) {
    case WeightFormat::nvfp4:
      return scheme.inputs == Inputs::scaled ? "NVFP4" : "W4A16_NVFP4";
    case WeightFormat::mxfp8:
      return "MXFP8";
    case WeightFormat::fp8:
      return "FP8_PER_CHANNEL_PER_TOKEN";
    case WeightFormat::fp8_tensor:
      return "FP8";
    case WeightFormat::mxfp4:
      break;
  }
  return {};
}

Json group_size_of(WeightFormat format) {
  const auto blocks = blocks_of(format);
  return blocks ? Json(info(*blocks).block) : Json(nullptr);
}

Json arguments_of(WeightFormat format) {
  Json json{{"dynamic", false}, {"num_bits", code_bits(format)}, {"type", "float"}};
  if (blocks_of(format)) {
    json["group_size"] = group_size_of(format);
  } else {
    json["strategy"] = format == WeightFormat::fp8 ? "channel" : "tensor";
  }
  return json;
}

Json producer() { return {{"name", "microscale"}, {"version", version()}}; }

// By layer; experts as the one module that they are to engines.
Json quantized_layers(const std::vector<LayerGroup>& groups) {
  Json layers = Json::object();
  for (const LayerGroup& group : groups) {
    Json entry{{"quant_algo", algorithm_of(group.scheme)}};
    const Json size = group_size_of(group.scheme.format);
    if (!size.is_null()) entry["group_size"] = size;
    for (const std::string& layer : group.layers) layers[layer] = entry;
  }
  return layers;
}

// "re:model\.visual\..*" as "model.visual.*".
std::string without_expression(std::string_view entry) {
  constexpr std::string_view prefix = "re:", ending = "\\..*";
  if (!entry.starts_with(prefix)) return std::string(entry);
  entry.remove_prefix(prefix.size());
  const bool inside = entry.ends_with(ending);
  if (inside) entry.remove_suffix(ending.size());
  std::string text;
  for (std::size_t i = 0; i < entry.size(); ++i) {
    if (entry[i] == '\\' && i + 1 < entry.size()) ++i;
    text += entry[i];
  }
  return text + (inside ? ".*" : "");
}

}  // namespace

std::vector<std::string> modelopt_excludes(const std::vector<std::string>& ignore,
                                           const std::vector<std::string>& modules) {
  std::vector<std::string> names = modules;
  for (const std::string& module : modules) {
    if (auto fused = fused_name_of(module)) names.push_back(std::move(*fused));
  }
  std::vector<std::string> excludes;
  for (const std::string& entry : ignore) {
    std::string exclude = without_expression(entry);
    const bool occurs = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return name.find(exclude) != std::string::npos;
    });
    if (occurs)
      exclude = fmt::format("{}[{}]", exclude.substr(0, exclude.size() - 1), exclude.back());
    excludes.push_back(std::move(exclude));
  }
  return excludes;
}

Status ModelOptWriter::check(const QuantizeModelOptions& options) const {
  const bool mxfp4 = main_format(options) == WeightFormat::mxfp4 ||
                     std::any_of(options.use.begin(), options.use.end(), [](const UseFormat& use) {
                       return use.format == WeightFormat::mxfp4;
                     });
  if (!mxfp4) return success();
  return Failure{
      ErrorCode::unsupported,
      "quantize: ModelOpt's container has no MXFP4 that loaders take; write mxfp4 as "
      "compressed-tensors (without --container), or choose nvfp4, mxfp8, fp8 or fp8_tensor"};
}

LayerTensors ModelOptWriter::layer(const LayerScheme& scheme, std::string_view module,
                                   std::int64_t rows, std::int64_t cols) const {
  const bool packed = code_bits(scheme.format) == 4;
  LayerTensors layer;
  layer.codes = {fmt::format("{}.weight", module),
                 packed ? StoredType::u8 : StoredType::f8_e4m3,
                 {rows, packed ? cols / 2 : cols}};
  if (scheme.format == WeightFormat::fp8_tensor) {
    layer.global_scale = {fmt::format("{}.weight_scale", module), StoredType::f32, {}};
  } else {
    layer.scales.name = fmt::format("{}.weight_scale", module);
  }
  if (const auto blocks = blocks_of(scheme.format)) {
    const FormatInfo& facts = info(*blocks);
    layer.scales.type = facts.e8m0_scale ? StoredType::u8 : StoredType::f8_e4m3;
    layer.scales.shape = {rows, cols / facts.block};
  } else if (scheme.format == WeightFormat::fp8) {
    layer.scales.type = StoredType::f32;
    layer.scales.shape = {rows};
  }
  if (scheme.format == WeightFormat::nvfp4) {
    layer.global_scale = {fmt::format("{}.weight_scale_2", module), StoredType::f32, {}};
  }
  if (scheme.inputs == Inputs::scaled) {
    layer.input_scale = {fmt::format("{}.input_scale", module), StoredType::f32, {}};
  }
  return layer;
}

Result<Descriptions> ModelOptWriter::describe(std::string_view config_text,
                                              const std::vector<LayerGroup>& groups,
                                              const std::vector<std::string>& ignore,
                                              const std::vector<std::string>& modules) const {
  const bool mixed = groups.size() > 1;
  const LayerScheme& first = groups.front().scheme;
  const std::string algorithm(mixed ? "MIXED_PRECISION" : algorithm_of(first));
  const Json excludes = modelopt_excludes(ignore, modules);

  Json file;
  file["producer"] = producer();
  Json& own = file["quantization"];
  own["quant_algo"] = algorithm;
  own["kv_cache_quant_algo"] = nullptr;
  own["group_size"] = mixed ? Json(nullptr) : group_size_of(first.format);
  own["exclude_modules"] = excludes;
  if (mixed) own["quantized_layers"] = quantized_layers(groups);

  Json json;
  json["quant_method"] = "modelopt";
  json["quant_algo"] = algorithm;
  json["producer"] = producer();
  json["ignore"] = excludes;
  if (mixed) {
    json["quantized_layers"] = own["quantized_layers"];
  } else {
    if (!own["group_size"].is_null()) json["group_size"] = own["group_size"];
    Json& group = json["config_groups"]["group_0"];
    group["targets"] = Json::array({"Linear"});
    group["weights"] = arguments_of(first.format);
    if (algorithm != "W4A16_NVFP4") group["input_activations"] = arguments_of(first.format);
  }
  auto config = with_quantization(config_text, std::move(json));
  if (!config) return config.failure();
  return Descriptions{std::move(config.value()), {{modelopt_file, dump_config(file)}}};
}

}  // namespace microscale
