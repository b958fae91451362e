#include "checkpoint/kept_kv_cache.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "checkpoint/config_json.hpp"
#include "checkpoint/json.hpp"
#include "checkpoint/modelopt_config.hpp"
#include "checkpoint/quantization_places.hpp"

namespace microscale {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* scheme_key = "kv_cache_scheme";
constexpr const char* algorithm_key = "kv_cache_quant_algo";
constexpr std::uint64_t largest_file = std::uint64_t{16} << 20;  // bytes

Json parsed(std::string_view text) {
  auto tree = parse_config(text);
  return tree ? std::move(tree.value()) : Json();
}

// hf_quant_config.json of the input, which is not copied; null where there is none.
Json modelopt_file_of(const ModelFolder& model) {
  const auto file = InputFile::open(model.root / modelopt_file);
  if (!file || file.value().size() > largest_file) return nullptr;
  std::string text(file.value().size(), '\0');
  auto* bytes = reinterpret_cast<std::uint8_t*>(text.data());
  return file.value().read_at(0, {bytes, text.size()}) ? parsed(text) : Json();
}

struct Cache {
  Json scheme;            // of compressed-tensors; null where only an algorithm is named
  std::string algorithm;  // of ModelOpt: "FP8"; empty where it is not known
};

void read(const Json* description, Cache& cache) {
  if (!description || !description->is_object()) return;
  if (const Json* scheme = member(*description, scheme_key); scheme && scheme->is_object()) {
    cache.scheme = *scheme;
    const Json* bits = member(*scheme, "num_bits");
    const bool fp8 = text_member(*scheme, "type") == "float" && bits && *bits == 8;
    if (fp8 && cache.algorithm.empty()) cache.algorithm = "FP8";
  }
  const std::string algorithm = text_member(*description, algorithm_key);
  if (!algorithm.empty()) cache.algorithm = algorithm;
}

Cache cache_of(const ModelFolder& model) {
  Cache cache;
  const Json file = modelopt_file_of(model), config = parsed(model.config_text.value_or("{}"));
  if (file.is_object()) read(member(file, "quantization"), cache);
  if (config.is_object()) read(find_quantization(config), cache);
  if (cache.scheme.is_null() && cache.algorithm == "FP8") {
    cache.scheme = {{"num_bits", 8},
                    {"type", "float"},
                    {"symmetric", true},
                    {"strategy", "tensor"},
                    {"dynamic", false}};
  }
  return cache;
}

}  // namespace

Status keep_kv_cache_scheme(ModelPlan& plan, Container container) {
  const Cache cache = cache_of(plan.model);
  const bool modelopt = container == Container::modelopt;
  if ((cache.scheme.is_null() && cache.algorithm.empty()) || plan.one_file) return success();
  if (modelopt ? cache.algorithm.empty() : cache.scheme.is_null()) {
    plan.summary.notices.push_back(fmt::format(
        "{} has no words for the key-value cache of the input{}; its scales go along, "
        "and config.json says nothing of it",
        to_string(container), cache.algorithm.empty() ? "" : " (" + cache.algorithm + ")"));
    return success();
  }
  auto config = parse_config(plan.config_text);
  if (!config) return config.failure();
  Json& description = config.value()["quantization_config"];
  if (!cache.scheme.is_null()) description[scheme_key] = cache.scheme;
  if (modelopt) description[algorithm_key] = cache.algorithm;
  plan.config_text = dump_config(config.value());
  for (auto& [name, text] : plan.other_texts) {
    if (name != modelopt_file) continue;
    Json file = parsed(text);
    file["quantization"][algorithm_key] = cache.algorithm;
    text = dump_config(file);
  }
  return success();
}

}  // namespace microscale
