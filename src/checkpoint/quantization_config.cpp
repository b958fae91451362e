#include "checkpoint/quantization_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "checkpoint/config_json.hpp"
#include "checkpoint/json.hpp"
#include "checkpoint/modelopt_config.hpp"
#include "checkpoint/quantization_places.hpp"

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

Failure bad(std::string message) { return {ErrorCode::bad_input, std::move(message)}; }

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

// What the arguments of a group's weights describe.
struct WeightScheme {
  std::optional<Format> format;  // nothing: not decoded here
  std::string words;
};

// "FP8, one scale per row", "INT4 in groups of 128".
std::string scheme_in_words(const Json& weights, std::int64_t bits, std::int64_t group) {
  std::string strategy = text_member(weights, "strategy");
  // What compressed-tensors takes it for; ModelOpt's configurations leave it out.
  if (strategy.empty() && group <= 0) strategy = group < 0 ? "channel" : "tensor";
  std::string words =
      fmt::format("{}{}", text_member(weights, "type") == "float" ? "FP" : "INT", bits);
  if (strategy == "channel") return words + ", one scale per row";
  if (strategy == "tensor") return words + ", one scale per tensor";
  if (strategy == "block") return words + ", one scale per block of rows and columns";
  if (group > 0) words += fmt::format(" in groups of {}", group);
  return words;
}

// Loaders choose by these arguments, not by the format string.
Result<WeightScheme> scheme_of_arguments(const Json& weights, const std::string& where,
                                         bool modelopt, std::vector<std::string>& problems) {
  const Json* bits = member(weights, "num_bits");
  const Json* group = member(weights, "group_size");
  if (!bits || !bits->is_number_integer()) {
    return bad(fmt::format("{}.num_bits is missing or not a whole number", where));
  }
  if (group && !group->is_number_integer()) {
    return bad(fmt::format("{}.group_size is not a whole number", where));
  }
  const auto num_bits = bits->get<std::int64_t>();
  const std::int64_t size = group ? group->get<std::int64_t>() : 0;
  const std::string type = text_member(weights, "type"),
                    strategy = text_member(weights, "strategy");
  const std::string scale = text_member(weights, "scale_dtype");
  const bool is_float = type == "float";
  std::optional<Format> format;
  if (is_float && num_bits == 4 && size == 16) format = Format::nvfp4;
  if (is_float && num_bits == 4 && size == 32) format = Format::mxfp4;
  if (is_float && num_bits == 8 && size == 32) format = Format::mxfp8_e4m3;
  if (!format) return WeightScheme{std::nullopt, scheme_in_words(weights, num_bits, size)};
  const WeightScheme scheme{format, std::string(info(*format).name)};
  if (modelopt) return scheme;
  const auto expect = [&](bool holds, const std::string& text) {
    if (!holds) problems.push_back(fmt::format("{}{}", where, text));
  };
  const Json* symmetric = member(weights, "symmetric");
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
  expect(text_member(weights, "actorder") != "group",
         ".actorder is 'group', which loaders refuse for these formats; set it to null");
  return scheme;
}

std::string text_member_of(const Json* object, const char* key) {
  return object && object->is_object() ? text_member(*object, key) : std::string();
}

// Whether loading needs a stored scale for the activations: static or "local" ones.
bool needs_input_scale(const Json* activations) {
  if (!activations || !activations->is_object()) return false;
  const Json* dynamic = member(*activations, "dynamic");
  return !(dynamic && dynamic->is_boolean() && dynamic->get<bool>());
}

// Whether loaders find a kernel for activations of this kind.
void check_activations(const Json& activations, Format format, const std::string& where,
                       std::vector<std::string>& problems) {
  report_unknown_keys(activations, known_arguments, where, problems);
  const FormatInfo& wanted = info(format);
  const Json *bits = member(activations, "num_bits"), *group = member(activations, "group_size");
  if (format == Format::nvfp4) {
    const bool same = bits && *bits == wanted.code_bits && group && *group == wanted.block &&
                      text_member(activations, "type") == "float";
    if (same) return;
    problems.push_back(fmt::format(
        "{} is not NVFP4, and loaders take NVFP4 weights with NVFP4 activations or with none; set "
        "it to null",
        where));
    return;
  }
  if (needs_input_scale(&activations)) {
    problems.push_back(fmt::format(
        "{}.dynamic is not true, but {} has no stored activation scale; set it to true, or "
        "input_activations to null",
        where, wanted.name));
  }
}

class ConfigReader {
 public:
  Result<QuantizationConfig> read(const Json& json) {
    config_.method = text_member(json, "quant_method");
    if (config_.is_modelopt()) {
      if (Status read = read_modelopt(json, config_); !read) return read.failure();
      // Several releases write compressed-tensors' groups as well, and loaders that know these
      // take them first.
      if (!member(json, "config_groups")) return std::move(config_);
      config_.groups.clear();
    } else if (config_.method != "compressed-tensors") {
      return Failure{ErrorCode::unsupported,
                     fmt::format("quantization_config.quant_method is {}; known here are "
                                 "'compressed-tensors' and 'modelopt'",
                                 in_quotes(config_.method))};
    }
    const bool modelopt = config_.is_modelopt();
    if (!modelopt) {
      auto ignore = strings_of(member(json, "ignore"), "quantization_config.ignore");
      if (!ignore) return ignore.failure();
      config_.ignore = std::move(ignore.value());
      check_top(json);
    }
    if (const Json* cache = member(json, "kv_cache_scheme"); cache && cache->is_object()) {
      config_.kv_cache = cache_scheme(*cache);
    }
    const Json* groups = member(json, "config_groups");
    if (!groups || !groups->is_object() || (groups->empty() && !config_.kv_cache)) {
      return bad("quantization_config.config_groups is missing or empty");
    }
    for (const auto& [name, group] : groups->items()) {
      if (Status read = read_group(name, group, text_member(json, "format"), modelopt); !read) {
        return read.failure();
      }
    }
    return std::move(config_);
  }

 private:
  void check_top(const Json& json) {
    const std::string status = text_member(json, "quantization_status");
    if (status != "compressed") {
      config_.problems.push_back(
          fmt::format("quantization_config.quantization_status is {}; set it to 'compressed'",
                      in_quotes(status)));
    }
    if (const Json* sparsity = member(json, "sparsity_config"); sparsity && !sparsity->empty()) {
      config_.problems.push_back(
          "quantization_config.sparsity_config is not empty, which loaders refuse; empty it");
    }
  }

  static KvCacheScheme cache_scheme(const Json& json) {
    const Json* dynamic = member(json, "dynamic");
    KvCacheScheme scheme;
    scheme.stored_scales = !(dynamic && dynamic->is_boolean() && dynamic->get<bool>());
    scheme.per_head = text_member(json, "strategy") == "attn_head";
    return scheme;
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
    auto targets = strings_of(&group, "quantization_config.config_groups." + name);
    if (!targets) return targets.failure();
    config_.groups.push_back({name, format, std::move(targets.value()),
                              format == Format::nvfp4 && !weight_only,
                              format ? std::string(info(*format).name) : name, !weight_only});
    return success();
  }

  Status read_group(const std::string& name, const Json& group, const std::string& top_format,
                    bool modelopt) {
    if (group.is_array()) return read_preset(name, group);
    const std::string where = "quantization_config.config_groups." + name;
    if (!group.is_object()) return bad(where + " is not an object");
    auto targets = strings_of(member(group, "targets"), where + ".targets");
    if (!targets) return targets.failure();
    if (targets.value().empty()) return bad(where + ".targets is missing or empty");
    const auto attention = [](const std::string& target) { return target.ends_with("Attention"); };
    if (std::all_of(targets.value().begin(), targets.value().end(), attention)) {
      return success();  // quantizes the key-value cache, no weights
    }
    const Json* weights = member(group, "weights");
    if (!weights || !weights->is_object()) return bad(where + ".weights is missing");
    auto scheme = scheme_of_arguments(*weights, where + ".weights", modelopt, config_.problems);
    if (!scheme) return scheme.failure();
    const std::optional<Format> format = scheme.value().format;
    if (!modelopt) {
      report_unknown_keys(group, known_scheme_keys, where, config_.problems);
      report_unknown_keys(*weights, known_arguments, where + ".weights", config_.problems);
      if (format) check_format_string(where, text_member(group, "format"), top_format, *format);
    }
    const Json* activations = member(group, "input_activations");
    if (!modelopt && format && activations && activations->is_object()) {
      check_activations(*activations, *format, where + ".input_activations", config_.problems);
    }
    // Of FP8 one number for the layer; integers are not decoded here.
    const bool stored = format == Format::nvfp4 ||
                        (!modelopt && !format && scheme.value().words.starts_with("FP8") &&
                         text_member_of(activations, "strategy") == "tensor");
    config_.groups.push_back(
        {name, format, std::move(targets.value()), stored && needs_input_scale(activations),
         std::move(scheme.value().words), activations && activations->is_object()});
    return success();
  }

  void check_format_string(const std::string& where, const std::string& own, const std::string& top,
                           Format format) {
    const std::string_view wanted = compressed_tensors_format(format);
    if (own.empty() && top == mixed_precision) {
      config_.problems.push_back(
          fmt::format("{} has no format, which a mixed-precision checkpoint needs; set it to '{}'",
                      where, wanted));
    }
    if (!own.empty() && own != wanted) {
      config_.problems.push_back(
          fmt::format("{}.format is {} but its arguments describe '{}'; make them agree", where,
                      in_quotes(own), wanted));
    }
    if (top != mixed_precision && top != wanted) {
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
  const Json* json = find_quantization(tree.value());
  if (!json) return std::optional<QuantizationConfig>();
  if (!json->is_object()) return bad("quantization_config is not an object");
  auto config = ConfigReader().read(*json);
  if (!config) return config.failure();
  for (const char* key : dtype_keys) {
    if (config.value().model_dtype.empty())
      config.value().model_dtype = text_member(tree.value(), key);
  }
  for (const std::string& place : rival_quantizations(tree.value())) {
    config.value().problems.push_back(fmt::format(
        "{} describes another quantization than the one that loaders take; remove one of them",
        place));
  }
  return std::optional<QuantizationConfig>(std::move(config.value()));
}

Result<std::string> dense_config(std::string_view config_text, DType dtype) {
  auto tree = parse_config(config_text);
  if (!tree) return tree.failure();
  Json& config = tree.value();
  if (!config.is_object()) return bad("it is not a JSON object");
  drop_quantization(config);
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
