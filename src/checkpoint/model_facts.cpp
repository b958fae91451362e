#include "checkpoint/model_facts.hpp"

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "checkpoint/config_json.hpp"

namespace microscale {
namespace {

using Json = nlohmann::ordered_json;

std::optional<std::int64_t> whole_number(const Json& object, const char* key) {
  const auto it = object.find(key);
  if (it == object.end()) return std::nullopt;
  double value = -1;
  if (it->is_number()) value = it->get<double>();
  // As some scripts leave it: "32"; or 3.2e1, which parse_config keeps as a text of its own.
  if (it->is_string()) {
    const std::string& text = it->get_ref<const std::string&>();
    const std::size_t begin = text.find_last_of(':') + 1;
    const auto parsed = std::from_chars(text.data() + begin, text.data() + text.size(), value);
    if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return std::nullopt;
  }
  constexpr double largest = 1e15;
  const bool whole = value >= 0 && value < largest && value == std::floor(value);
  return whole ? std::optional(static_cast<std::int64_t>(value)) : std::nullopt;
}

std::string text(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
}

std::optional<std::string> quantized_by(const Json& config) {
  // MLX says "quantization".
  for (const char* key : {"quantization_config", "compression_config", "quantization"}) {
    const auto it = config.find(key);
    if (it == config.end() || !it->is_object() || it->empty()) continue;
    const std::string method = text(*it, "quant_method");
    return method.empty() ? std::string(key) : method;
  }
  return std::nullopt;
}

// Gemma 3n and its kin, and models that reuse a cache: "num_kv_shared_layers", "attention_k_eq_v".
bool shares_keys(const Json& config) {
  for (const auto& [key, value] : config.items()) {
    const bool says_so = key.find("kv_shared") != key.npos || key.find("kv_reuse") != key.npos ||
                         key.find("k_eq_v") != key.npos || key.find("share_kv") != key.npos;
    if (says_so && !value.is_null() && value != 0 && value != false) return true;
  }
  return false;
}

void add(ModelFacts& facts, const Json& config) {
  if (facts.model_type.empty()) facts.model_type = text(config, "model_type");
  for (const char* key : {"hidden_size", "n_embd", "d_model"}) {
    if (!facts.hidden_size) facts.hidden_size = whole_number(config, key);
  }
  for (const char* key : {"vocab_size", "padded_vocab_size"}) {
    if (!facts.vocab_size) facts.vocab_size = whole_number(config, key);
  }
  // Where the decoder has another number of layers, num_hidden_layers is the encoder's.
  const bool two_numbers = config.contains("decoder_layers");
  if (!facts.layers && !two_numbers) facts.layers = whole_number(config, "num_hidden_layers");
  for (const char* key : {"num_experts", "num_local_experts", "n_routed_experts"}) {
    if (!facts.experts) facts.experts = whole_number(config, key);
  }
  facts.uneven_layers |= config.contains("block_configs");
  facts.shared_keys |= shares_keys(config);
  facts.swiglu_limit |= config.contains("swiglu_limit");
  if (!facts.quantized_by) facts.quantized_by = quantized_by(config);
}

// "vision_config", "audio_config", ...: an encoder beside the language model.
bool is_encoder_config(const std::string& key, const Json& value) {
  if (!key.ends_with("_config") || !value.is_object()) return false;
  for (const char* word : {"vision", "audio", "image", "video", "speech", "vit", "encoder"}) {
    if (key.find(word) != std::string::npos) return true;
  }
  return false;
}

void add_top_level(ModelFacts& facts, const Json& config) {
  facts.diffusion = !text(config, "_class_name").empty();
  const auto architectures = config.find("architectures");
  if (architectures != config.end() && architectures->is_array()) {
    for (const Json& name : *architectures) {
      if (name.is_string()) facts.architectures.push_back(name.get<std::string>());
    }
  }
  for (const auto& [key, value] : config.items()) {
    facts.multimodal |= is_encoder_config(key, value);
  }
}

// The config of the language model of several parts, by the names that it has.
void add_language_model(ModelFacts& facts, const Json& config) {
  for (const char* key : {"text_config", "llm_config", "language_config", "thinker_config"}) {
    const auto inner = config.find(key);
    if (inner == config.end() || !inner->is_object()) continue;
    const std::string model_type = text(*inner, "model_type");
    if (!model_type.empty()) facts.text_model_type = model_type;
    add(facts, *inner);
    add_language_model(facts, *inner);
  }
}

}  // namespace

Result<ModelFacts> read_model_facts(const std::string& config_text) {
  const auto config = parse_config(config_text);
  if (!config) return config.failure();
  ModelFacts facts;
  if (!config.value().is_object()) return facts;
  add(facts, config.value());
  add_top_level(facts, config.value());
  add_language_model(facts, config.value());
  return facts;
}

}  // namespace microscale
