#include "checkpoint/modelopt_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>

#include "checkpoint/config_json.hpp"
#include "checkpoint/json.hpp"

namespace microscale {
namespace {

using Json = nlohmann::ordered_json;

// What ModelOpt calls an algorithm, and what its weights are.
struct Algorithm {
  std::string_view name;
  std::optional<Format> format;  // nothing: not decoded here
  std::string_view words;        // where there is no format
  bool stored_input_scale = false;
};

constexpr std::array<Algorithm, 18> algorithms{{
    {"NVFP4", Format::nvfp4, "", true},
    {"NVFP4_AWQ", Format::nvfp4, "", true},
    {"NVFP4_SVDQUANT", Format::nvfp4, "", true},
    {"W4A8_NVFP4_FP8", Format::nvfp4, "", true},
    {"W4A16_NVFP4", Format::nvfp4, "", false},
    {"MXFP8", Format::mxfp8_e4m3, "", false},
    {"MXFP4", Format::mxfp4, "", false},
    {"W4A8_MXFP4_FP8", Format::mxfp4, "", false},
    {"FP8", std::nullopt, "FP8, one scale per tensor"},
    {"FP8_PER_CHANNEL_PER_TOKEN", std::nullopt, "FP8, one scale per row"},
    {"FP8_PB_WO", std::nullopt, "FP8, one scale per block of rows and columns"},
    {"FP8_PB_REAL", std::nullopt, "FP8, one scale per block of rows and columns"},
    {"INT8_SQ", std::nullopt, "INT8, one scale per row"},
    {"W8A8_SQ_PER_CHANNEL", std::nullopt, "INT8, one scale per row"},
    {"W8A16", std::nullopt, "INT8, one scale per row"},
    {"W4A16", std::nullopt, "INT4 in groups"},
    {"W4A16_AWQ", std::nullopt, "INT4 in groups"},
    {"W4A8_AWQ", std::nullopt, "INT4 in groups"},
}};

Failure bad(std::string message) { return {ErrorCode::bad_input, std::move(message)}; }

// A name as an expression that means only it.
std::string escaped(const std::string& name) {
  std::string text;
  for (const char c : name) text += c == '.' ? std::string("\\.") : std::string(1, c);
  return text;
}

QuantizationGroup group_of(const std::string& algorithm, std::vector<std::string> targets) {
  const auto* known = std::find_if(algorithms.begin(), algorithms.end(),
                                   [&](const Algorithm& each) { return each.name == algorithm; });
  QuantizationGroup group;
  group.name = algorithm;
  group.targets = std::move(targets);
  group.scheme = algorithm;
  // "W4A16_NVFP4": activations of 16 bits stay as they are.
  group.quantized_activations = algorithm.find("A16") == std::string::npos;
  if (known == algorithms.end()) return group;
  group.format = known->format;
  group.scheme = known->format ? info(*known->format).name : known->words;
  group.static_activations = known->stored_input_scale;
  return group;
}

// "quantized_layers": {"model.layers.0.mlp.up_proj": {"quant_algo": "NVFP4", "group_size": 16}}.
Status read_layers(const Json& layers, QuantizationConfig& config) {
  if (!layers.is_object()) return bad("quantized_layers is not an object");
  std::map<std::string, std::vector<std::string>> names;
  for (const auto& [layer, arguments] : layers.items()) {
    const std::string algorithm =
        arguments.is_object() ? text_member(arguments, "quant_algo") : std::string();
    if (algorithm.empty()) {
      return bad(fmt::format("quantized_layers gives {} no quant_algo", in_quotes(layer)));
    }
    names[algorithm].push_back(layer);
    // A layer's experts as one module stand for each layer of each of them.
    if (layer.ends_with(".experts")) names[algorithm].push_back("re:" + escaped(layer) + "\\..*");
  }
  for (auto& [algorithm, targets] : names) {
    config.groups.push_back(group_of(algorithm, std::move(targets)));
  }
  return success();
}

}  // namespace

Status read_modelopt(const Json& json, QuantizationConfig& config) {
  const Json* nested = member(json, "quantization");
  const Json& own = nested && nested->is_object() ? *nested : json;
  for (const char* key : {"exclude_modules", "ignore"}) {
    auto names = strings_of(member(own, key), key);
    if (!names) return names.failure();
    config.ignore.insert(config.ignore.end(), names.value().begin(), names.value().end());
  }
  const Json* scheme = member(own, "kv_cache_scheme");
  if (!text_member(own, "kv_cache_quant_algo").empty() || (scheme && scheme->is_object())) {
    config.kv_cache = KvCacheScheme();
  }
  if (const Json* layers = member(own, "quantized_layers")) return read_layers(*layers, config);
  const std::string algorithm = text_member(own, "quant_algo");
  if (!algorithm.empty()) config.groups.push_back(group_of(algorithm, {"Linear"}));
  if (config.groups.empty() && !member(json, "config_groups") && !config.kv_cache) {
    return bad("neither quant_algo nor quantized_layers says what is quantized");
  }
  return success();
}

Result<QuantizationConfig> parse_modelopt_file(std::string_view text) {
  const auto tree = parse_config(text);
  if (!tree) return tree.failure();
  if (!tree.value().is_object()) return bad("it is not a JSON object");
  QuantizationConfig config;
  config.method = "modelopt";
  const Json* own = member(tree.value(), "quantization");
  if (!own || !own->is_object()) return bad("quantization is missing");
  if (Status read = read_modelopt(tree.value(), config); !read) return read.failure();
  const bool nvfp4 = std::any_of(config.groups.begin(), config.groups.end(),
                                 [](const auto& group) { return group.format == Format::nvfp4; });
  for (const char* key : {"group_size", "kv_cache_quant_algo", "exclude_modules"}) {
    // Null is an answer; only absence is refused. Layers by name have group sizes of their own.
    if (!nvfp4 || own->contains(key) || own->contains("quantized_layers")) continue;
    config.problems.push_back(
        fmt::format("quantization.{} is missing, which vLLM asks for; add it{}", key,
                    std::string_view(key) == "group_size" ? " (16)" : ""));
  }
  const Json* size = member(*own, "group_size");
  if (nvfp4 && size && size->is_number_integer() && *size != info(Format::nvfp4).block) {
    config.problems.push_back(
        fmt::format("quantization.group_size is {}, but NVFP4 has blocks of {}; correct it",
                    size->get<std::int64_t>(), info(Format::nvfp4).block));
  }
  return config;
}

}  // namespace microscale
