#include "checkpoint/compressed_tensors.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "checkpoint/config_json.hpp"
#include "checkpoint/quantization_config.hpp"

namespace microscale {
namespace {

using Json = nlohmann::ordered_json;

// The release of compressed-tensors whose layout this is. Loaders do not choose by it.
constexpr const char* layout_version = "0.20.0";

// Null and default members are left out: older loaders refuse keys they do not know.
Json weight_arguments(Format format) {
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

// As the presets NVFP4, MXFP4 and MXFP8 of compressed-tensors have them: in blocks like the
// weights'.
Json input_arguments(const LayerScheme& scheme) {
  if (scheme.inputs == Inputs::dense) return nullptr;
  Json json = weight_arguments(scheme.format);
  json["dynamic"] = scheme.inputs == Inputs::scaled ? Json("local") : Json(true);
  return json;
}

Json quantization_config(const LayerScheme& scheme, const std::vector<std::string>& ignore) {
  const std::string name(compressed_tensors_format(scheme.format));
  Json group;
  group["format"] = name;
  group["targets"] = Json::array({"Linear"});
  group["weights"] = weight_arguments(scheme.format);
  group["input_activations"] = input_arguments(scheme);
  group["output_activations"] = nullptr;
  Json json;
  json["quant_method"] = "compressed-tensors";
  json["version"] = layout_version;
  json["quantization_status"] = "compressed";
  json["format"] = name;
  json["global_compression_ratio"] = nullptr;
  json["kv_cache_scheme"] = nullptr;
  json["sparsity_config"] = Json::object();
  json["transform_config"] = Json::object();
  json["ignore"] = ignore;
  json["config_groups"]["group_0"] = std::move(group);
  return json;
}

}  // namespace

LayerScheme scheme_of(const QuantizeModelOptions& options, Format format) {
  if (!info(format).e8m0_scale) {
    return {format, options.input_scales.empty() ? Inputs::dense : Inputs::scaled};
  }
  const bool dynamic = options.activations == Activations::dynamic;
  return {format, dynamic ? Inputs::dynamic : Inputs::dense};
}

CompressedLayer compressed_layer(const LayerScheme& scheme, std::string_view module,
                                 std::int64_t rows, std::int64_t cols) {
  const FormatInfo& facts = info(scheme.format);
  const bool packed = facts.code_bits == 4;
  CompressedLayer layer;
  layer.codes = {fmt::format("{}.{}", module, packed ? "weight_packed" : "weight"),
                 packed ? StoredType::u8 : StoredType::f8_e4m3,
                 {rows, code_bytes(facts, cols)}};
  layer.scales = {fmt::format("{}.weight_scale", module),
                  facts.e8m0_scale ? StoredType::u8 : StoredType::f8_e4m3,
                  {rows, cols / facts.block}};
  if (!facts.e8m0_scale) {
    layer.global_scale = {fmt::format("{}.weight_global_scale", module), StoredType::f32, {1}};
  }
  if (scheme.inputs == Inputs::scaled) {
    layer.input_scale = {fmt::format("{}.input_global_scale", module), StoredType::f32, {1}};
  }
  return layer;
}

float stored_global_scale(float decode_multiplier) { return 1.0f / decode_multiplier; }

float stored_input_scale(double amax) { return static_cast<float>(448.0 * 6.0 / amax); }

Status check_container(const QuantizeModelOptions& options) {
  const FormatInfo& format = info(options.format);
  const auto refuse = [](const std::string& message) {
    return Failure{ErrorCode::invalid_argument, "quantize: " + message};
  };
  if (compressed_tensors_format(options.format).empty()) {
    return Failure{
        ErrorCode::unsupported,
        fmt::format("no checkpoint container that loaders read holds {}; choose nvfp4, mxfp4 or "
                    "mxfp8 (the library, explain and compare have {})",
                    format.name, format.name)};
  }
  if (options.activations == Activations::dynamic && !format.e8m0_scale &&
      options.input_scales.empty()) {
    return refuse(fmt::format(
        "engines quantize the inputs of {} layers with a scale that is stored for each; give "
        "--input-scales FILE, or choose mxfp4 or mxfp8 for --activations dynamic",
        format.name));
  }
  if (!options.input_scales.empty() && format.e8m0_scale) {
    return refuse(
        fmt::format("inputs of {} layers have no stored scale, so --input-scales has no effect; "
                    "--activations dynamic has engines quantize them",
                    format.name));
  }
  return success();
}

Result<std::string> with_quantization_config(std::string_view config_text,
                                             const LayerScheme& scheme,
                                             const std::vector<std::string>& ignore) {
  Json config = Json::object();
  if (!config_text.empty()) {
    auto parsed = parse_config(config_text);
    if (!parsed) return parsed.failure();
    config = std::move(parsed.value());
  }
  // transformers decompresses to BF16 and then multiplies by inputs of the model's type: one that
  // stays FP32 fails at its first product. Its newer versions write "dtype" where older ones had
  // "torch_dtype", and read both.
  config[config.contains("dtype") ? "dtype" : "torch_dtype"] = "bfloat16";
  config["quantization_config"] = quantization_config(scheme, ignore);
  return dump_config(config);
}

}  // namespace microscale
