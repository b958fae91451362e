#include "checkpoint/compressed_tensors.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "checkpoint/config_json.hpp"
#include "checkpoint/quantization_config.hpp"

namespace microscale {
namespace {

using Json = nlohmann::ordered_json;

// The release of compressed-tensors whose layout this is. Loaders do not choose by it.
constexpr const char* layout_version = "0.20.0";

// Null and default members are left out: older loaders refuse keys they do not know.
Json block_arguments(Format format) {
  const FormatInfo& facts = info(format);
  Json json;
  json["num_bits"] = facts.code_bits;
  json["type"] = "float";
  json["symmetric"] = true;
  json["group_size"] = facts.block;
  json["strategy"] = facts.e8m0_scale ? "group" : "tensor_group";
  json["dynamic"] = false;
  json["scale_dtype"] = facts.e8m0_scale ? "torch.uint8" : "torch.float8_e4m3fn";
  return json;
}

Json fp8_arguments(const char* strategy, bool dynamic) {
  return {{"num_bits", 8},
          {"type", "float"},
          {"symmetric", true},
          {"strategy", strategy},
          {"dynamic", dynamic}};
}

Json weight_arguments(WeightFormat format) {
  const auto blocks = blocks_of(format);
  return blocks ? block_arguments(*blocks) : fp8_arguments("channel", false);
}

// As the presets NVFP4, MXFP4, MXFP8 and FP8_DYNAMIC of compressed-tensors have them: in blocks
// like the weights', or with a scale for each token.
Json input_arguments(const LayerScheme& scheme) {
  if (scheme.inputs == Inputs::dense) return nullptr;
  const auto blocks = blocks_of(scheme.format);
  if (!blocks) return fp8_arguments("token", true);
  Json json = block_arguments(*blocks);
  json["dynamic"] = scheme.inputs == Inputs::scaled ? Json("local") : Json(true);
  return json;
}

std::string format_string(WeightFormat format) {
  const auto blocks = blocks_of(format);
  return std::string(blocks ? compressed_tensors_format(*blocks) : "float-quantized");
}

Json quantization_config(const std::vector<LayerGroup>& groups,
                         const std::vector<std::string>& ignore) {
  Json json;
  json["quant_method"] = "compressed-tensors";
  json["version"] = layout_version;
  json["quantization_status"] = "compressed";
  json["format"] = groups.size() > 1 ? std::string(mixed_precision)
                                     : format_string(groups.front().scheme.format);
  json["global_compression_ratio"] = nullptr;
  json["kv_cache_scheme"] = nullptr;
  json["sparsity_config"] = Json::object();
  json["transform_config"] = Json::object();
  json["ignore"] = ignore;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    Json& group = json["config_groups"][fmt::format("group_{}", i)];
    group["format"] = format_string(groups[i].scheme.format);
    group["targets"] = groups[i].targets;
    group["weights"] = weight_arguments(groups[i].scheme.format);
    group["input_activations"] = input_arguments(groups[i].scheme);
    group["output_activations"] = nullptr;
  }
  return json;
}

// All that some layer may get.
std::set<WeightFormat> formats_of(const QuantizeModelOptions& options, WeightFormat own) {
  std::set<WeightFormat> formats{own};
  for (const UseFormat& use : options.use) formats.insert(use.format);
  for (const MenuFormat format : options.budget.menu)
    if (format) formats.insert(*format);
  return formats;
}

}  // namespace

LayerScheme scheme_of(const QuantizeModelOptions& options, WeightFormat format) {
  if (has_tensor_scale(format)) {
    const bool scaled =
        options.keep_codes ? options.keep_codes->scaled_inputs : !options.input_scales.empty();
    return {format, scaled ? Inputs::scaled : Inputs::dense};
  }
  const bool dynamic = options.activations == Activations::dynamic;
  return {format, dynamic ? Inputs::dynamic : Inputs::dense};
}

LayerTensors compressed_layer(const LayerScheme& scheme, std::string_view module, std::int64_t rows,
                              std::int64_t cols) {
  const bool packed = code_bits(scheme.format) == 4;
  LayerTensors layer;
  layer.codes = {fmt::format("{}.{}", module, packed ? "weight_packed" : "weight"),
                 packed ? StoredType::u8 : StoredType::f8_e4m3,
                 {rows, packed ? cols / 2 : cols}};
  layer.scales.name = fmt::format("{}.weight_scale", module);
  if (const auto blocks = blocks_of(scheme.format)) {
    const FormatInfo& facts = info(*blocks);
    layer.scales.type = facts.e8m0_scale ? StoredType::u8 : StoredType::f8_e4m3;
    layer.scales.shape = {rows, cols / facts.block};
  } else {
    layer.scales.type = StoredType::bf16;
    layer.scales.shape = {rows, 1};
  }
  if (scheme.format == WeightFormat::nvfp4) {
    layer.global_scale = {fmt::format("{}.weight_global_scale", module), StoredType::f32, {1}};
  }
  if (scheme.inputs == Inputs::scaled) {
    layer.input_scale = {fmt::format("{}.input_global_scale", module), StoredType::f32, {1}};
  }
  return layer;
}

float stored_global_scale(float decode_multiplier) { return 1.0f / decode_multiplier; }

Status check_container(const QuantizeModelOptions& options) {
  const auto refuse = [](const std::string& message) {
    return Failure{ErrorCode::invalid_argument, "quantize: " + message};
  };
  if (options.keep_codes) return success();  // the input has what is asked for
  const auto own = weight_format_of(options.format);
  if (!own) {
    const std::string_view name = info(options.format).name;
    return Failure{
        ErrorCode::unsupported,
        fmt::format("no checkpoint container that loaders read holds {}; choose nvfp4, mxfp4 or "
                    "mxfp8 (the library, explain and compare have {})",
                    name, name)};
  }
  const std::set<WeightFormat> formats = formats_of(options, *own);
  const bool nvfp4 = formats.contains(WeightFormat::nvfp4);
  if (formats.contains(WeightFormat::fp8_tensor) && options.container != Container::modelopt) {
    return refuse(
        "fp8_tensor, one scale for a weight, is ModelOpt's; choose fp8, one scale for each row, or "
        "give --container modelopt");
  }
  if (options.activations == Activations::dynamic && nvfp4 && formats.size() == 1 &&
      options.input_scales.empty()) {
    return refuse(
        "engines quantize the inputs of nvfp4 layers with a scale that is stored for each; give "
        "--input-scales FILE, or choose mxfp4 or mxfp8 for --activations dynamic");
  }
  if (!options.input_scales.empty() && !nvfp4 && !formats.contains(WeightFormat::fp8_tensor)) {
    return refuse(
        fmt::format("inputs of {} layers have no stored scale, so --input-scales has no effect; "
                    "--activations dynamic has engines quantize them",
                    to_string(main_format(options))));
  }
  return success();
}

Result<std::string> with_quantization_config(std::string_view config_text,
                                             const LayerScheme& scheme,
                                             const std::vector<std::string>& ignore) {
  return with_quantization_config(config_text, std::vector<LayerGroup>{{scheme, {"Linear"}}},
                                  ignore);
}

Result<std::string> with_quantization_config(std::string_view config_text,
                                             const std::vector<LayerGroup>& groups,
                                             const std::vector<std::string>& ignore) {
  return with_quantization(config_text, quantization_config(groups, ignore));
}

}  // namespace microscale
