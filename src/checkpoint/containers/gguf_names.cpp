#include "checkpoint/containers/gguf_names.hpp"

#include <algorithm>
#include <array>

namespace microscale {
namespace {

constexpr std::string_view architectures[] = {"llama", "qwen2", "qwen3", "qwen3moe", "gemma3"};

struct Rename {
  std::string_view gguf, hugging_face;
};

// Outside the layers; ".weight" or ".bias" stays as it is.
constexpr Rename outer[] = {
    {"token_embd", "model.embed_tokens"},
    {"output_norm", "model.norm"},
    {"output", "lm_head"},
};

// Behind "blk.N." and "model.layers.N.".
constexpr Rename inner[] = {
    {"attn_norm", "input_layernorm"},
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
    {"ffn_norm", "post_attention_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
    {"ffn_gate_inp", "mlp.gate"},
    {"ffn_gate_exps", "mlp.experts.{}.gate_proj"},
    {"ffn_up_exps", "mlp.experts.{}.up_proj"},
    {"ffn_down_exps", "mlp.experts.{}.down_proj"},
};

// Gemma has four norms a layer, and another one is llama.cpp's ffn_norm.
constexpr Rename gemma_norms[] = {
    {"post_attention_norm", "post_attention_layernorm"},
    {"ffn_norm", "pre_feedforward_layernorm"},
    {"post_ffw_norm", "post_feedforward_layernorm"},
};

template <std::size_t count>
std::optional<std::string_view> find(const Rename (&table)[count], std::string_view name) {
  for (const Rename& entry : table) {
    if (entry.gguf == name) return entry.hugging_face;
  }
  return std::nullopt;
}

std::optional<std::string_view> find_inner(std::string_view architecture, std::string_view name) {
  const bool experts = name == "ffn_gate_inp" || name.ends_with("_exps");
  if (experts && architecture != "qwen3moe") return std::nullopt;
  if (architecture == "gemma3") {
    if (const auto norm = find(gemma_norms, name)) return norm;
  }
  return find(inner, name);
}

bool all_digits(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

bool has_gguf_names(std::string_view architecture) {
  return std::find(std::begin(architectures), std::end(architectures), architecture) !=
         std::end(architectures);
}

std::optional<GgufName> hugging_face_name(std::string_view architecture,
                                          std::string_view gguf_name) {
  const std::size_t dot = gguf_name.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const std::string_view ending = gguf_name.substr(dot);
  if (ending != ".weight" && ending != ".bias") return std::nullopt;
  const std::string_view stem = gguf_name.substr(0, dot);
  GgufName result;
  std::string_view part;  // without "blk.N."
  if (stem.starts_with("blk.")) {
    const std::size_t end = stem.find('.', 4);
    if (end == std::string_view::npos || !all_digits(stem.substr(4, end - 4))) return std::nullopt;
    part = stem.substr(end + 1);
    const auto renamed = find_inner(architecture, part);
    if (!renamed) return std::nullopt;
    result.name = "model.layers." + std::string(stem.substr(4, end - 3)) + std::string(*renamed);
  } else {
    part = stem;
    const auto renamed = find(outer, part);
    if (!renamed) return std::nullopt;
    result.name = *renamed;
  }
  result.name += ending;
  result.experts = part.ends_with("_exps");
  result.query = architecture == "llama" && part == "attn_q";
  result.key = architecture == "llama" && part == "attn_k";
  result.plus_one = architecture == "gemma3" && part.ends_with("_norm");
  return result;
}

}  // namespace microscale
