#include "checkpoint/model_facts.hpp"

#include <nlohmann/json.hpp>

#include "checkpoint/config_json.hpp"

namespace microscale {
namespace {

using Json = nlohmann::ordered_json;

std::optional<std::int64_t> whole_number(const Json& object, const char* key) {
  const auto it = object.find(key);
  if (it == object.end() || !it->is_number_integer()) return std::nullopt;
  const auto value = it->get<std::int64_t>();
  return value >= 0 ? std::optional(value) : std::nullopt;
}

std::string text(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
}

std::optional<std::string> quantized_by(const Json& config) {
  for (const char* key : {"quantization_config", "compression_config"}) {
    const auto it = config.find(key);
    if (it == config.end() || !it->is_object()) continue;
    const std::string method = text(*it, "quant_method");
    return method.empty() ? std::string(key) : method;
  }
  return std::nullopt;
}

void add(ModelFacts& facts, const Json& config) {
  if (facts.model_type.empty()) facts.model_type = text(config, "model_type");
  for (const char* key : {"hidden_size", "n_embd", "d_model"}) {
    if (!facts.hidden_size) facts.hidden_size = whole_number(config, key);
  }
  if (!facts.layers) facts.layers = whole_number(config, "num_hidden_layers");
  for (const char* key : {"num_nextn_predict_layers", "mtp_num_hidden_layers"}) {
    if (whole_number(config, key).value_or(0) > 0) facts.has_prediction_layers = true;
  }
  if (!facts.quantized_by) facts.quantized_by = quantized_by(config);
}

}  // namespace

Result<ModelFacts> read_model_facts(const std::string& config_text) {
  const auto config = parse_config(config_text);
  if (!config) return config.failure();
  ModelFacts facts;
  if (!config.value().is_object()) return facts;
  add(facts, config.value());
  const auto inner = config.value().find("text_config");
  if (inner != config.value().end() && inner->is_object()) add(facts, *inner);
  return facts;
}

}  // namespace microscale
