#include "checkpoint/containers/gguf_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <numbers>
#include <vector>

#include "checkpoint/config_json.hpp"
#include "checkpoint/containers/gguf_plan.hpp"
#include "checkpoint/json.hpp"

namespace microscale {
namespace {

using Json = nlohmann::ordered_json;

constexpr double llama3_context = 8192, llama3_low = 1, llama3_high = 4;

Failure bad(std::string message) { return {ErrorCode::bad_input, std::move(message)}; }

struct Family {
  const char* architecture;
  const char* model_type;
  const char* model_class;
  double rope_theta;  // where the file does not say
};

constexpr Family families[] = {
    {"llama", "llama", "LlamaForCausalLM", 10000},
    {"qwen2", "qwen2", "Qwen2ForCausalLM", 10000},
    {"qwen3", "qwen3", "Qwen3ForCausalLM", 10000},
    {"qwen3moe", "qwen3_moe", "Qwen3MoeForCausalLM", 10000},
    {"gemma3", "gemma3_text", "Gemma3ForCausalLM", 1000000},
    {"gpt-oss", "gpt_oss", "GptOssForCausalLM", 150000},
};

// The shortest decimal number that is this FP32 number, as a config would have it: 1e-05.
double short_decimal(double value) {
  return std::strtod(fmt::format("{}", static_cast<float>(value)).c_str(), nullptr);
}

class ConfigWriter {
 public:
  ConfigWriter(const GgufFile& file, const Family& family) : file_(file), family_(family) {}

  Result<std::string> write() {
    config_["architectures"] = {family_.model_class};
    config_["model_type"] = family_.model_type;
    for (const auto& [key, from] : {std::pair{"hidden_size", "embedding_length"},
                                    std::pair{"intermediate_size", "feed_forward_length"},
                                    std::pair{"num_hidden_layers", "block_count"},
                                    std::pair{"num_attention_heads", "attention.head_count"}}) {
      if (!copy_whole(key, from) && !(is_moe() && key == std::string("intermediate_size")))
        return missing(from);
    }
    if (!copy_whole("num_key_value_heads", "attention.head_count_kv"))
      config_["num_key_value_heads"] = config_["num_attention_heads"];
    if (!copy_whole("max_position_embeddings", "context_length")) return missing("context_length");
    if (!copy_real("rms_norm_eps", "attention.layer_norm_rms_epsilon"))
      return missing("attention.layer_norm_rms_epsilon");
    if (config_["num_attention_heads"].get<std::int64_t>() < 1)
      return missing("attention.head_count");
    add_head_dim();
    const GgufFile::Tensor* embedding = file_.find("token_embd.weight");
    if (!embedding || embedding->entry->shape.size() != 2) {
      return bad(
          "the file has no matrix token_embd.weight, so the size of its vocabulary is not "
          "known");
    }
    config_["vocab_size"] = embedding->entry->shape[0];
    config_["tie_word_embeddings"] = file_.find("output.weight") == nullptr;
    add_family();
    if (Status rope = add_rope(); !rope) return rope.failure();
    add_tokens(config_);
    return dump_config(config_);
  }

  void add_tokens(Json& json) const {
    for (const auto& [key, from] : {std::pair{"bos_token_id", "tokenizer.ggml.bos_token_id"},
                                    std::pair{"eos_token_id", "tokenizer.ggml.eos_token_id"},
                                    std::pair{"pad_token_id", "tokenizer.ggml.padding_token_id"}}) {
      const GgufValue* value = file_.value(from);
      if (value && value->whole()) json[key] = *value->whole();
    }
  }

 private:
  bool is_moe() const {
    return family_.architecture == std::string_view("qwen3moe") || is_gpt_oss();
  }
  bool is_gpt_oss() const { return family_.architecture == std::string_view("gpt-oss"); }
  bool is_gemma() const { return family_.architecture == std::string_view("gemma3"); }

  std::optional<std::uint64_t> whole(const std::string& key) const {
    const GgufValue* value = file_.value(fmt::format("{}.{}", family_.architecture, key));
    return value ? value->whole() : std::nullopt;
  }

  Failure missing(const std::string& key) const {
    return bad(fmt::format("the file does not say {}.{}, without which the model cannot be built",
                           family_.architecture, key));
  }

  bool copy_whole(const char* key, const std::string& from) {
    const auto value = whole(from);
    if (value) config_[key] = *value;
    return value.has_value();
  }

  bool copy_real(const char* key, const std::string& from) {
    const auto value = gguf_model_number(file_, from);
    if (value) config_[key] = short_decimal(*value);
    return value.has_value();
  }

  void add_head_dim() {
    if (copy_whole("head_dim", "attention.key_length")) return;
    if (family_.architecture == std::string_view("llama") &&
        copy_whole("head_dim", "rope.dimension_count"))
      return;
    config_["head_dim"] = config_["hidden_size"].get<std::int64_t>() /
                          config_["num_attention_heads"].get<std::int64_t>();
  }

  void add_family() {
    config_["hidden_act"] = "silu";
    const bool biased = file_.find("blk.0.attn_q.bias") != nullptr;
    if (family_.architecture == std::string_view("llama")) {
      config_["attention_bias"] = biased;
      config_["mlp_bias"] = file_.find("blk.0.ffn_gate.bias") != nullptr;
    } else if (family_.architecture == std::string_view("qwen2")) {
      config_["use_sliding_window"] = false;
    } else if (is_gemma()) {
      add_gemma();
    } else if (is_gpt_oss()) {
      return add_gpt_oss();
    } else {
      config_["attention_bias"] = biased;
      config_["use_sliding_window"] = false;
    }
    if (is_moe()) {
      copy_whole("num_experts", "expert_count");
      copy_whole("num_experts_per_tok", "expert_used_count");
      copy_whole("moe_intermediate_size", "expert_feed_forward_length");
      config_["norm_topk_prob"] = true;
      config_["decoder_sparse_step"] = 1;
      config_["mlp_only_layers"] = Json::array();
    }
  }

  void add_gpt_oss() {
    config_["attention_bias"] = file_.find("blk.0.attn_q.bias") != nullptr;
    copy_whole("num_local_experts", "expert_count");
    copy_whole("num_experts_per_tok", "expert_used_count");
    copy_whole("intermediate_size", "expert_feed_forward_length");
    copy_whole("sliding_window", "attention.sliding_window");
    config_["swiglu_limit"] = 7.0;
  }

  // Gemma 3 of 27B alone divides scores by the root of another number than its heads' size.
  void add_gemma() {
    config_.erase("hidden_act");
    config_["hidden_activation"] = "gelu_pytorch_tanh";
    copy_whole("sliding_window", "attention.sliding_window");
    const bool largest = config_["num_hidden_layers"] == 62;
    config_["query_pre_attn_scalar"] = largest
                                           ? config_["hidden_size"].get<std::int64_t>() /
                                                 config_["num_attention_heads"].get<std::int64_t>()
                                           : config_["head_dim"].get<std::int64_t>();
    config_["rope_local_base_freq"] = 10000.0;
    config_["attention_bias"] = false;
  }

  Status add_rope() {
    if (!copy_real("rope_theta", "rope.freq_base")) config_["rope_theta"] = family_.rope_theta;
    const auto factor3 = gguf_llama3_factor(file_);
    if (!factor3) return factor3.failure();
    if (factor3.value() != 0) {
      config_["rope_scaling"] = {{"rope_type", "llama3"},
                                 {"factor", short_decimal(factor3.value())},
                                 {"low_freq_factor", llama3_low},
                                 {"high_freq_factor", llama3_high},
                                 {"original_max_position_embeddings", 8192}};
      return success();
    }
    const GgufValue* type = file_.value(fmt::format("{}.rope.scaling.type", family_.architecture));
    const auto factor = gguf_model_number(file_, "rope.scaling.factor");
    if (!type || !type->text() || !factor || *factor == 0) return success();
    if (*type->text() != "linear" && *type->text() != "yarn") return success();
    Json scaling{{"rope_type", *type->text()}, {"factor", short_decimal(*factor)}};
    if (const auto context = whole("rope.scaling.original_context_length")) {
      scaling["original_max_position_embeddings"] = *context;
    }
    // As in the published config.json: the ends of the ramp are not rounded.
    if (is_gpt_oss()) scaling["truncate"] = false;
    config_["rope_scaling"] = std::move(scaling);
    return success();
  }

  const GgufFile& file_;
  const Family& family_;
  Json config_;
};

const Family& family_of(const GgufFile& file) {
  const auto architecture = file.value("general.architecture")->text().value_or("");
  return *std::find_if(std::begin(families), std::end(families),
                       [&](const Family& family) { return architecture == family.architecture; });
}

}  // namespace

Result<std::string> gguf_config(const GgufFile& file) {
  return ConfigWriter(file, family_of(file)).write();
}

std::string gguf_generation_config(const GgufFile& file) {
  Json config;
  ConfigWriter(file, family_of(file)).add_tokens(config);
  // A turn may end by a token of its own.
  const GgufValue* turn = file.value("tokenizer.ggml.eot_token_id");
  if (turn && turn->whole() && config.contains("eos_token_id") &&
      config["eos_token_id"] != *turn->whole()) {
    config["eos_token_id"] = {config["eos_token_id"], *turn->whole()};
  }
  return dump_config(config.is_null() ? Json::object() : config);
}

Result<float> gguf_llama3_factor(const GgufFile& file) {
  const GgufFile::Tensor* tensor = file.find("rope_freqs.weight");
  if (!tensor) return 0.0f;
  const auto& shape = tensor->entry->shape;
  if (tensor->entry->type != GgufType::f32 || shape.size() != 1 || shape[0] < 1 ||
      shape[0] > 4096) {
    return bad("the tensor 'rope_freqs.weight' is no list of F32 numbers; make the file again");
  }
  std::vector<float> factors(static_cast<std::size_t>(shape[0]));
  const std::span<std::uint8_t> bytes{reinterpret_cast<std::uint8_t*>(factors.data()),
                                      factors.size() * sizeof(float)};
  if (Status read = read_gguf(file, *tensor, 0, bytes); !read) return read.failure();
  const float factor = *std::max_element(factors.begin(), factors.end());
  if (factor == 1.0f) return 0.0f;
  const double base = gguf_model_number(file, "rope.freq_base").value_or(10000);
  for (std::size_t i = 0; i < factors.size(); ++i) {
    const double wave = 2 * std::numbers::pi *
                        std::pow(base, static_cast<double>(i) / static_cast<double>(shape[0]));
    double wanted = factor;
    if (wave < llama3_context / llama3_high) {
      wanted = 1;
    } else if (wave <= llama3_context / llama3_low) {
      const double smooth = (llama3_context / wave - llama3_low) / (llama3_high - llama3_low);
      wanted = 1 / ((1 - smooth) / factor + smooth);
    }
    if (!(std::fabs(factors[i] - wanted) < 1e-3 * wanted)) {
      return bad(
          fmt::format("the tensor 'rope_freqs.weight' does not hold the frequencies of "
                      "Llama 3.1: number {} is {}, not {:.4f}; such a rotary embedding "
                      "cannot be written into config.json",
                      i, factors[i], wanted));
    }
  }
  return factor;
}

}  // namespace microscale
