#include "checkpoint/containers/gguf_hyperparameters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numbers>
#include <optional>

#include "checkpoint/config_json.hpp"
#include "checkpoint/json.hpp"

namespace microscale {
namespace {

using Json = nlohmann::ordered_json;

struct Family {
  std::string_view model_type, architecture;
};

constexpr Family families[] = {
    {"llama", "llama"},        {"mistral", "llama"}, {"qwen2", "qwen2"},        {"qwen3", "qwen3"},
    {"qwen3_moe", "qwen3moe"}, {"gemma3", "gemma3"}, {"gemma3_text", "gemma3"},
};

// What transformers takes for a number of Gemma 3 that config.json leaves out.
struct Default {
  const char* key;
  double value;
};
constexpr Default gemma_defaults[] = {
    {"num_attention_heads", 8}, {"num_key_value_heads", 4},          {"head_dim", 256},
    {"rms_norm_eps", 1e-6},     {"max_position_embeddings", 131072}, {"vocab_size", 262208},
    {"sliding_window", 4096},
};

Failure bad(std::string message) { return {ErrorCode::bad_input, std::move(message)}; }

Failure unlike(std::string_view architecture, const std::string& what) {
  return {ErrorCode::unsupported,
          fmt::format("config.json says {}, and llama.cpp computes models of the architecture {} "
                      "otherwise; write another container, without a name that ends in .gguf",
                      what, architecture)};
}

class Writer {
 public:
  Writer(const Json& config, GgufMetadata& metadata) : config_(config), metadata_(metadata) {
    const Json* text = member(config, "text_config");
    model_ = text && text->is_object() ? text : &config;
  }

  Result<GgufHyperparameters> write() {
    if (Status known = find_architecture(); !known) return known.failure();
    if (Status same = check(); !same) return same.failure();
    metadata_.set_text("general.architecture", found_.architecture);
    metadata_.set_text("general.type", "model");
    for (const auto& [key, from] : {std::pair{"block_count", "num_hidden_layers"},
                                    std::pair{"context_length", "max_position_embeddings"},
                                    std::pair{"embedding_length", "hidden_size"},
                                    std::pair{"feed_forward_length", "intermediate_size"},
                                    std::pair{"attention.head_count", "num_attention_heads"}}) {
      if (Status put = put_whole(key, from); !put) return put.failure();
    }
    found_.heads = *whole("num_attention_heads");
    found_.kv_heads = whole("num_key_value_heads").value_or(found_.heads);
    put("attention.head_count_kv", found_.kv_heads);
    if (Status rope = add_rope(); !rope) return rope.failure();
    const auto epsilon = number("rms_norm_eps");
    if (!epsilon) return missing("rms_norm_eps");
    metadata_.set_f32(name("attention.layer_norm_rms_epsilon"), static_cast<float>(*epsilon));
    if (whole("head_dim")) {
      put("attention.key_length", *whole("head_dim"));
      put("attention.value_length", *whole("head_dim"));
    }
    if (!whole("vocab_size")) return missing("vocab_size");
    found_.vocabulary = *whole("vocab_size");
    if (Status family = add_family(); !family) return family.failure();
    const Json* tied = value("tie_word_embeddings");
    if (!tied) tied = member(config_, "tie_word_embeddings");
    found_.tied = tied && tied->is_boolean() ? tied->get<bool>() : is("gemma3");
    return std::move(found_);
  }

 private:
  bool is(std::string_view architecture) const { return found_.architecture == architecture; }
  std::string name(std::string_view key) const {
    return fmt::format("{}.{}", found_.architecture, key);
  }
  const Json* value(const char* key) const { return member(*model_, key); }

  std::optional<double> number(const char* key) const {
    const Json* found = value(key);
    if (found && found->is_number()) return found->get<double>();
    if (!is("gemma3")) return std::nullopt;
    for (const Default& each : gemma_defaults) {
      if (std::string_view(each.key) == key) return each.value;
    }
    return std::nullopt;
  }

  std::optional<std::int64_t> whole(const char* key) const {
    const auto found = number(key);
    constexpr double most = std::numeric_limits<std::uint32_t>::max();
    if (!found || *found < 1 || *found > most || *found != std::floor(*found)) return std::nullopt;
    return static_cast<std::int64_t>(*found);
  }

  Failure missing(const char* key) const {
    return bad(
        fmt::format("config.json has no '{}' that is a positive number, without which "
                    "llama.cpp cannot build the model",
                    key));
  }

  void put(std::string_view key, std::int64_t number) {
    metadata_.set_u32(name(key), static_cast<std::uint32_t>(number));
  }

  Status put_whole(const char* key, const char* from) {
    const auto found = whole(from);
    if (!found) return missing(from);
    put(key, *found);
    return success();
  }

  Status find_architecture() {
    std::string type = text_member(*model_, "model_type");
    if (type.empty()) type = text_member(config_, "model_type");
    const auto family = std::find_if(std::begin(families), std::end(families),
                                     [&](const Family& each) { return each.model_type == type; });
    if (family == std::end(families)) {
      return Failure{
          ErrorCode::unsupported,
          fmt::format("GGUF files are made of models of the types llama, mistral, qwen2, qwen3, "
                      "qwen3_moe and gemma3, and config.json says {}; make one with llama.cpp's "
                      "convert_hf_to_gguf.py first, and quantize that",
                      type.empty() ? "none" : in_quotes(type))};
    }
    found_.architecture = family->architecture;
    return success();
  }

  // What llama.cpp has no number for in the file.
  Status check() const {
    const char* key = is("gemma3") ? "hidden_activation" : "hidden_act";
    const std::string activation = text_member(*model_, key);
    const std::string wanted = is("gemma3") ? "gelu_pytorch_tanh" : "silu";
    if (!activation.empty() && activation != wanted) {
      return unlike(found_.architecture, fmt::format("{} {}", key, in_quotes(activation)));
    }
    if (is("qwen3moe")) return check_experts();
    return is("gemma3") ? check_gemma() : success();
  }

  Status check_experts() const {
    const Json *normed = value("norm_topk_prob"), *dense = value("mlp_only_layers");
    if (normed && *normed == false) return unlike("qwen3moe", "norm_topk_prob false");
    if (number("decoder_sparse_step").value_or(1) != 1 || (dense && !dense->empty())) {
      return unlike("qwen3moe", "that some layers have no experts");
    }
    return success();
  }

  Status check_gemma() const {
    const bool largest = whole("num_hidden_layers") == 62;
    const double heads = number("num_attention_heads").value_or(1);
    const double divided = number("hidden_size").value_or(0) / heads;
    const double wanted = largest ? divided : *number("head_dim");
    const Json* scalar = value("query_pre_attn_scalar");
    if (scalar && scalar->is_number() && scalar->get<double>() != wanted) {
      return unlike("gemma3", fmt::format("query_pre_attn_scalar {}", scalar->dump()));
    }
    for (const char* softcap : {"attn_logit_softcapping", "final_logit_softcapping"}) {
      if (value(softcap)) return unlike("gemma3", softcap);
    }
    for (const char* pattern : {"sliding_window_pattern", "_sliding_window_pattern"}) {
      const Json* period = value(pattern);
      if (period && *period != 6)
        return unlike("gemma3", fmt::format("{} {}", pattern, period->dump()));
    }
    const Json* types = value("layer_types");
    for (std::size_t i = 0; types && i < types->size(); ++i) {
      if ((*types)[i] != (i % 6 == 5 ? "full_attention" : "sliding_attention")) {
        return unlike("gemma3", fmt::format("that layer {} is {}", i, (*types)[i].dump()));
      }
    }
    return success();
  }

  Status add_family() {
    if (is("llama")) {
      put("vocab_size", found_.vocabulary);
      put("rope.dimension_count", head_length());
    } else if (is("gemma3")) {
      put("attention.sliding_window", *whole("sliding_window"));
    } else if (is("qwen3moe")) {
      // transformers reads the one and writes the other.
      const char* experts = whole("num_local_experts") ? "num_local_experts" : "num_experts";
      for (const auto& [key, from] :
           {std::pair{"expert_count", experts},
            std::pair{"expert_used_count", "num_experts_per_tok"},
            std::pair{"expert_feed_forward_length", "moe_intermediate_size"}}) {
        if (Status put = put_whole(key, from); !put) return put;
      }
      found_.experts = *whole(experts);
    }
    return success();
  }

  std::int64_t head_length() const {
    return whole("head_dim").value_or(whole("hidden_size").value_or(0) / found_.heads);
  }

  // Old files have rope_theta and rope_scaling, new ones both in rope_parameters; Gemma's by the
  // kind of the layer.
  Status add_rope() {
    const Json* parameters = value("rope_parameters");
    if (!parameters) parameters = value("rope_scaling");
    const Json none = Json::object();
    if (!parameters || !parameters->is_object()) parameters = &none;
    const Json* local = member(*parameters, "sliding_attention");
    if (const Json* full = member(*parameters, "full_attention")) parameters = full;
    const auto real = [](const Json& object, const char* key) {
      const Json* found = member(object, key);
      return found && found->is_number() ? std::optional(found->get<double>()) : std::nullopt;
    };
    const auto base = real(*parameters, "rope_theta");
    const double theta =
        base.value_or(number("rope_theta").value_or(is("gemma3") ? 1000000 : 10000));
    metadata_.set_f32(name("rope.freq_base"), static_cast<float>(theta));
    if (is("gemma3")) {
      const auto near = local ? real(*local, "rope_theta") : number("rope_local_base_freq");
      metadata_.set_f32(name("rope.freq_base_swa"), static_cast<float>(near.value_or(10000)));
    }
    std::string type = text_member(*parameters, "rope_type");
    if (type.empty()) type = text_member(*parameters, "type");
    if (type.empty() || type == "default") return success();
    const auto factor = real(*parameters, "factor");
    const auto context = real(*parameters, "original_max_position_embeddings");
    if (type == "llama3" && is("llama")) {
      add_llama3_factors(theta, factor.value_or(8),
                         real(*parameters, "low_freq_factor").value_or(1),
                         real(*parameters, "high_freq_factor").value_or(4), context.value_or(8192));
      return success();
    }
    if ((type != "linear" && type != "yarn") || !factor) {
      return unlike(found_.architecture, fmt::format("rope_type {}", in_quotes(type)));
    }
    metadata_.set_text(name("rope.scaling.type"), type);
    metadata_.set_f32(name("rope.scaling.factor"), static_cast<float>(*factor));
    if (type == "yarn") {
      const double length = context.value_or(number("max_position_embeddings").value_or(0));
      put("rope.scaling.original_context_length", static_cast<std::int64_t>(length));
    }
    return success();
  }

  // Llama 3.1's rotary embedding: waves longer than its old context are stretched.
  void add_llama3_factors(double theta, double factor, double low, double high, double context) {
    const std::int64_t half = head_length() / 2;
    for (std::int64_t i = 0; i < half; ++i) {
      const double wave = 2 * std::numbers::pi *
                          std::pow(theta, static_cast<double>(i) / static_cast<double>(half));
      double stretched = factor;
      if (wave < context / high) {
        stretched = 1;
      } else if (wave <= context / low) {
        const double smooth = (context / wave - low) / (high - low);
        stretched = 1 / ((1 - smooth) / factor + smooth);
      }
      found_.rope_factors.push_back(static_cast<float>(stretched));
    }
  }

  const Json& config_;
  const Json* model_ = nullptr;  // the language model's part of it
  GgufMetadata& metadata_;
  GgufHyperparameters found_;
};

}  // namespace

Result<GgufHyperparameters> add_gguf_hyperparameters(std::string_view config_text,
                                                     GgufMetadata& metadata) {
  if (config_text.empty()) {
    return bad(
        "there is no config.json, and a GGUF file says how its model is built; put it beside the "
        "weights");
  }
  const auto config = parse_json(config_text);
  if (!config) return bad("config.json: " + config.failure().message);
  if (!config.value().is_object()) return bad("config.json is no JSON object");
  return Writer(config.value(), metadata).write();
}

}  // namespace microscale
