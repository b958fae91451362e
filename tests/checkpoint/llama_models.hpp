// Small language models of the architectures that GGUF files are made of, as model folders.
#pragma once

#include <string>

#include "model_builder.hpp"

namespace microscale::testing {

inline constexpr std::int64_t llama_hidden = 128, llama_inner = 192, llama_heads = 4,
                              llama_kv_heads = 2, llama_head = 32, llama_words = 24,
                              llama_experts = 3;

/// Byte-level BPE: "a", "b", "ab" and so on, with one special token at the end.
inline std::string small_tokenizer() {
  std::string vocabulary;
  for (int i = 0; i < llama_words - 2; ++i) {
    vocabulary += (i ? ", \"" : "\"") + std::string(1, static_cast<char>('a' + i)) +
                  "\": " + std::to_string(i);
  }
  return R"({"version": "1.0", "added_tokens": [{"id": 23, "content": "<end>", "special": true}],
    "normalizer": {"type": "NFC"},
    "pre_tokenizer": {"type": "ByteLevel", "use_regex": true},
    "model": {"type": "BPE", "vocab": {)" +
         vocabulary + R"(, "ab": 22}, "merges": [["a", "b"]]}})";
}

/// Two layers, BF16, in two shards. `model_type`: llama, qwen2, qwen3, qwen3_moe or gemma3_text.
inline TestModel language_model(const std::string& model_type) {
  TestModel model;
  model.shards.resize(2);
  const bool gemma = model_type == "gemma3_text", experts = model_type == "qwen3_moe";
  unsigned seed = 1;
  const auto add = [&](const std::string& name, std::vector<std::int64_t> shape) {
    model.shards[seed % 2][name] = random_tensor(StoredType::bf16, std::move(shape), seed);
    ++seed;
  };
  add("model.embed_tokens.weight", {llama_words, llama_hidden});
  add("model.norm.weight", {llama_hidden});
  if (!gemma) add("lm_head.weight", {llama_words, llama_hidden});
  for (const std::string layer : {"model.layers.0.", "model.layers.1."}) {
    const std::string attention = layer + "self_attn.", mlp = layer + "mlp.";
    add(attention + "q_proj.weight", {llama_heads * llama_head, llama_hidden});
    add(attention + "k_proj.weight", {llama_kv_heads * llama_head, llama_hidden});
    add(attention + "v_proj.weight", {llama_kv_heads * llama_head, llama_hidden});
    add(attention + "o_proj.weight", {llama_hidden, llama_heads * llama_head});
    if (model_type == "qwen2") {
      add(attention + "q_proj.bias", {llama_heads * llama_head});
      add(attention + "k_proj.bias", {llama_kv_heads * llama_head});
      add(attention + "v_proj.bias", {llama_kv_heads * llama_head});
    } else if (model_type != "llama") {
      add(attention + "q_norm.weight", {llama_head});
      add(attention + "k_norm.weight", {llama_head});
    }
    add(layer + "input_layernorm.weight", {llama_hidden});
    add(layer + "post_attention_layernorm.weight", {llama_hidden});
    if (gemma) {
      add(layer + "pre_feedforward_layernorm.weight", {llama_hidden});
      add(layer + "post_feedforward_layernorm.weight", {llama_hidden});
    }
    if (experts) add(mlp + "gate.weight", {llama_experts, llama_hidden});
    for (std::int64_t expert = 0; expert < (experts ? llama_experts : 1); ++expert) {
      const std::string of = experts ? mlp + "experts." + std::to_string(expert) + "." : mlp;
      add(of + "gate_proj.weight", {llama_inner, llama_hidden});
      add(of + "up_proj.weight", {llama_inner, llama_hidden});
      add(of + "down_proj.weight", {llama_hidden, llama_inner});
    }
  }
  model.config = R"({"model_type": ")" + model_type +
                 R"(", "hidden_size": 128, "intermediate_size": 192, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "vocab_size": 24,
    "max_position_embeddings": 512, "rms_norm_eps": 1e-06, "rope_theta": 500000.0)" +
                 (gemma ? R"(, "sliding_window": 64, "tie_word_embeddings": true)"
                        : R"(, "tie_word_embeddings": false)") +
                 (experts ? R"(, "num_experts": 3, "num_experts_per_tok": 2,
    "moe_intermediate_size": 192, "norm_topk_prob": true)"
                          : "") +
                 "}";
  model.other_files["tokenizer.json"] = small_tokenizer();
  model.other_files["tokenizer_config.json"] =
      R"({"eos_token": "<end>", "chat_template": "{{ messages }}"})";
  return model;
}

}  // namespace microscale::testing
