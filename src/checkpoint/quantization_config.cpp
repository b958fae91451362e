#include "checkpoint/quantization_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "checkpoint/config_json.hpp"
#include "checkpoint/json.hpp"

namespace microscale {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, 12> known_arguments{
    "num_bits", "type",     "symmetric",   "group_size", "strategy", "block_structure",
    "dynamic",  "actorder", "scale_dtype", "zp_dtype",   "observer", "observer_kwargs"};
constexpr std::array<std::string_view, 5> known_scheme_keys{
    "targets", "weights", "input_activations", "output_activations", "format"};
// Where config.json names the type of the model's tensors, the newer spelling first.
constexpr std::array<const char*, 2> dtype_keys{"dtype", "torch_dtype"};
// Top-level formats under which each group names its own.
constexpr std::string_view mixed = "mixed-precision";

Failure bad(std::string message) { return {ErrorCode::bad_input, std::move(message)}; }

const Json* find(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

std::string text_of(const Json& object, const char* key) {
  const Json* value = find(object, key);
  return value && value->is_string() ? value->get<std::string>() : "";
}

template <std::size_t Count>
void report_unknown_keys(const Json& object, const std::array<std::string_view, Count>& known,
                         const std::string& where, std::vector<std::string>& problems) {
  for (const auto& [key, value] : object.items()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      problems.push_back(
          fmt::format("{} has the unknown key {}, which strict loaders refuse; remove it", where,
                      in_quotes(key)));
    }
  }
}

Result<std::vector<std::string>> strings(const Json* list, const std::string& where) {
  std::vector<std::string> found;
  if (!list) return found;
  if (!list->is_array()) return bad(fmt::format("{} is not a list of names", where));
  for (const Json& item : *list) {
    if (!item.is_string()) return bad(fmt::format("{} holds something that is not a name", where));
    found.push_back(item.get<std::string>());
  }
  return found;
}

// Loaders choose by these arguments, not by the format string.
Result<Format> format_of_arguments(const Json& weights, const std::string& where, bool modelopt,
                                   std::vector<std::string>& problems) {
  const Json* bits = find(weights, "num_bits");
  const Json* group = find(weights, "group_size");
  if (!bits || !bits->is_number_integer()) {
    return bad(fmt::format("{}.num_bits is missing or not a whole number", where));
  }
  if (group && !group->is_number_integer()) {
    return bad(fmt::format("{}.group_size is not a whole number", where));
  }
  const auto num_bits = bits->get<std::int64_t>();
  const std::int64_t size = group ? group->get<std::int64_t>() : 0;
  const std::string type = text_of(weights, "type"), strategy = text_of(weights, "strategy");
  const std::string scale = text_of(weights, "scale_dtype");
  const bool is_float = type == "float";
  std::optional<Format> format;
  if (is_float && num_bits == 4 && size == 16) format = Format::nvfp4;
  if (is_float && num_bits == 4 && size == 32) format = Format::mxfp4;
  if (is_float && num_bits == 8 && size == 32) format = Format::mxfp8_e4m3;
  if (!format) {
    return Failure{
        ErrorCode::unsupported,
        fmt::format("{} asks for {} bits of type '{}' in groups of {}; known here are NVFP4 "
                    "(float, 4 bits, 16), MXFP4 (float, 4, 32) and MXFP8 (float, 8, 32)",
                    where, num_bits, type, size)};
  }
  if (modelopt) return *format;
  const auto expect = [&](bool holds, const std::string& text) {
    if (!holds) problems.push_back(fmt::format("{}{}", where, text));
  };
  const Json* symmetric = find(weights, "symmetric");
  expect(!symmetric || (symmetric->is_boolean() && symmetric->get<bool>()),
         ".symmetric is not true, but these formats have no zero points; set it to true");
  const std::string_view wanted = *format == Format::nvfp4 ? "tensor_group" : "group";
  expect(strategy == wanted,
         fmt::format(".strategy is '{}' where {} has '{}'; loaders choose by it, "
                     "so correct it",
                     strategy, info(*format).name, wanted));
  const bool e4m3 = scale == "torch.float8_e4m3fn" || scale == "float8_e4m3fn";
  const bool u8 = scale == "torch.uint8" || scale == "uint8";
  if (*format == Format::nvfp4) {
    expect(scale.empty() || e4m3, fmt::format(".scale_dtype is '{}'; NVFP4 scales are "
                                              "torch.float8_e4m3fn",
                                              scale));
  } else if (*format == Format::mxfp4) {
    expect(scale.empty() || u8, fmt::format(".scale_dtype is '{}'; set it to torch.uint8", scale));
  } else {
    expect(u8, fmt::format(".scale_dtype is '{}'; loaders know MXFP8 by torch.uint8, so set that",
                           scale));
  }
  expect(text_of(weights, "actorder") != "group",
         ".actorder is 'group', which loaders refuse for these formats; set it to null");
  return *format;
}

// Whether loading needs a stored scale for the activations: static or "local" ones.
bool needs_input_scale(const Json* activations) {
  if (!activations || !activations->is_object()) return false;
  const Json* dynamic = find(*activations, "dynamic");
  return !(dynamic && dynamic->is_boolean() && dynamic->get<bool>());
}

class ConfigReader {
 public:
  Result<QuantizationConfig> read(const Json& json) {
    config_.method = text_of(json, "quant_method");
    if (config_.method != "compressed-tensors" && config_.method != "modelopt") {
      return Failure{ErrorCode::unsupported,
                     fmt::format("quantization_config.quant_method is {}; known here are "
                                 "'compressed-tensors' and 'modelopt'",
                                 in_quotes(config_.method))};
    }
    const bool modelopt = config_.method == "modelopt";
    auto ignore = strings(find(json, "ignore"), "quantization_config.ignore");
    if (!ignore) return ignore.failure();
    config_.ignore = std::move(ignore.value());
    if (!modelopt) check_top(json);
    const Json* groups = find(json, "config_groups");
    if (!groups || !groups->is_object() || groups->empty()) {
      return bad("quantization_config.config_groups is missing or empty");
    }
    for (const auto& [name, group] : groups->items()) {
      if (Status read = read_group(name, group, text_of(json, "format"), modelopt); !read) {
        return read.failure();
      }
    }
    return std::move(config_);
  }

 private:
  void check_top(const Json& json) {
    const std::string status = text_of(json, "quantization_status");
    if (status != "compressed") {
      config_.problems.push_back(
          fmt::format("quantization_config.quantization_status is {}; set it to 'compressed'",
                      in_quotes(status)));
    }
    if (const Json* sparsity = find(json, "sparsity_config"); sparsity && !sparsity->empty()) {
      config_.problems.push_back(
          "quantization_config.sparsity_config is not empty, which loaders refuse; empty it");
    }
  }

  // NVFP4A16 and the like: a preset by name, with its targets as a plain list.
  Status read_preset(const std::string& name, const Json& group) {
    std::string_view preset = name;
    const bool weight_only = preset.ends_with("A16");
    if (weight_only) preset.remove_suffix(3);
    std::optional<Format> format;
    if (preset == "NVFP4") format = Format::nvfp4;
    if (preset == "MXFP4") format = Format::mxfp4;
    if (preset == "MXFP8") format = Format::mxfp8_e4m3;
    if (!format) {
      return Failure{
          ErrorCode::unsupported,
          fmt::format("quantization_config.config_groups uses the preset {}; known here are "
                      "NVFP4, MXFP4, MXFP8 and the same with A16",
                      in_quotes(name))};
    }
    auto targets = strings(&group, "quantization_config.config_groups." + name);
    if (!targets) return targets.failure();
    config_.groups.push_back(
        {name, *format, std::move(targets.value()), *format == Format::nvfp4 && !weight_only});
    return success();
  }

  Status read_group(const std::string& name, const Json& group, const std::string& top_format,
                    bool modelopt) {
    if (group.is_array()) return read_preset(name, group);
    const std::string where = "quantization_config.config_groups." + name;
    if (!group.is_object()) return bad(where + " is not an object");
    auto targets = strings(find(group, "targets"), where + ".targets");
    if (!targets) return targets.failure();
    if (targets.value().empty()) return bad(where + ".targets is missing or empty");
    const auto attention = [](const std::string& target) { return target.ends_with("Attention"); };
    if (std::all_of(targets.value().begin(), targets.value().end(), attention)) {
      return success();  // quantizes the key-value cache, no weights
    }
    const Json* weights = find(group, "weights");
    if (!weights || !weights->is_object()) return bad(where + ".weights is missing");
    auto format = format_of_arguments(*weights, where + ".weights", modelopt, config_.problems);
    if (!format) return format.failure();
    if (!modelopt) {
      report_unknown_keys(group, known_scheme_keys, where, config_.problems);
      report_unknown_keys(*weights, known_arguments, where + ".weights", config_.problems);
      check_format_string(where, text_of(group, "format"), top_format, format.value());
    }
    const Json* activations = find(group, "input_activations");
    config_.groups.push_back({name, format.value(), std::move(targets.value()),
                              format.value() == Format::nvfp4 && needs_input_scale(activations)});
    return success();
  }

  void check_format_string(const std::string& where, const std::string& own, const std::string& top,
                           Format format) {
    const std::string_view wanted = compressed_tensors_format(format);
    if (own.empty() && top == mixed) {
      config_.problems.push_back(
          fmt::format("{} has no format, which a mixed-precision checkpoint needs; set it to '{}'",
                      where, wanted));
    }
    if (!own.empty() && own != wanted) {
      config_.problems.push_back(
          fmt::format("{}.format is {} but its arguments describe '{}'; make them agree", where,
                      in_quotes(own), wanted));
    }
    if (top != mixed && top != wanted) {
      config_.problems.push_back(fmt::format(
          "quantization_config.format is {} but the arguments of {} describe '{}'; make "
          "them agree",
          in_quotes(top), where, wanted));
    }
  }

  QuantizationConfig config_;
};

}  // namespace

Result<std::optional<QuantizationConfig>> parse_quantization_config(std::string_view config_text) {
  const auto tree = parse_config(config_text);
  if (!tree) return tree.failure();
  if (!tree.value().is_object()) return bad("it is not a JSON object");
  const Json* json = find(tree.value(), "quantization_config");
  if (!json) return std::optional<QuantizationConfig>();
  if (!json->is_object()) return bad("quantization_config is not an object");
  auto config = ConfigReader().read(*json);
  if (!config) return config.failure();
  for (const char* key : dtype_keys) {
    if (config.value().model_dtype.empty()) config.value().model_dtype = text_of(tree.value(), key);
  }
  return std::optional<QuantizationConfig>(std::move(config.value()));
}

Result<std::string> dense_config(std::string_view config_text, DType dtype) {
  auto tree = parse_config(config_text);
  if (!tree) return tree.failure();
  Json& config = tree.value();
  if (!config.is_object()) return bad("it is not a JSON object");
  config.erase("quantization_config");
  const char* name = dtype == DType::f32 ? "float32" : dtype == DType::f16 ? "float16" : "bfloat16";
  for (const char* key : dtype_keys) {
    if (config.contains(key)) config[key] = name;
  }
  return dump_config(config);
}

std::string_view compressed_tensors_format(Format format) {
  switch (format) {
    case Format::nvfp4:
      return "nvfp4-pack-quantized";
    case Format::mxfp4:
      return "mxfp4-pack-quantized";
    case Format::mxfp8_e4m3:
      return "mxfp8-quantized";
    default:
      return {};
  }
}

}  // namespace microscale
