#include "checkpoint/containers/gguf_names.hpp"

#include <algorithm>
#include <charconv>

namespace microscale {
namespace {

constexpr std::string_view architectures[] = {"llama",    "qwen2",  "qwen3",
                                              "qwen3moe", "gemma3", "gpt-oss"};

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

// gpt-oss has two norms a layer, a router with a bias, and sinks.
constexpr Rename gpt_oss_names[] = {
    {"post_attention_norm", "post_attention_layernorm"},
    {"ffn_gate_inp", "mlp.router"},
    {"attn_sinks", "self_attn.sinks"},
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
  const bool gpt_oss = architecture == "gpt-oss";
  if (experts && architecture != "qwen3moe" && !gpt_oss) return std::nullopt;
  if (gpt_oss) {
    if (const auto own = find(gpt_oss_names, name)) return own;
  }
  if (architecture == "gemma3") {
    if (const auto norm = find(gemma_norms, name)) return norm;
  }
  return find(inner, name);
}

// The other side of the table.
template <std::size_t count>
std::optional<std::string_view> find_back(const Rename (&table)[count], std::string_view name) {
  for (const Rename& entry : table) {
    if (entry.hugging_face == name) return entry.gguf;
  }
  return std::nullopt;
}

// "mlp.experts.{}.up_proj" of "mlp.experts.17.up_proj", and 17.
std::optional<std::int64_t> take_expert(std::string& within) {
  constexpr std::string_view experts = "mlp.experts.";
  if (!within.starts_with(experts)) return std::nullopt;
  const char* const begin = within.data() + experts.size();
  const char* const end = within.data() + within.size();
  std::int64_t number = 0;
  const auto [after, error] = std::from_chars(begin, end, number);
  if (error != std::errc() || after == begin || after == end || *after != '.') return std::nullopt;
  within = std::string(experts) + "{}" + std::string(after, end);
  return number;
}

// "model.layers.0..." whatever encloses it.
std::string plain_name(std::string_view name) {
  for (const std::string_view around : {"model.language_model.", "language_model.model."}) {
    if (name.starts_with(around)) return "model." + std::string(name.substr(around.size()));
  }
  constexpr std::string_view head = "language_model.lm_head.";
  if (name.starts_with(head)) return "lm_head." + std::string(name.substr(head.size()));
  for (const std::string_view bare : {"layers.", "embed_tokens.", "norm."}) {
    if (name.starts_with(bare)) return "model." + std::string(name);
  }
  return std::string(name);
}

// What llama.cpp did to the values of `part` ("attn_q"), and whether it is of all experts.
void note_changes(std::string_view architecture, std::string_view part, GgufName& name) {
  name.experts = part.ends_with("_exps");
  name.query = architecture == "llama" && part == "attn_q";
  name.key = architecture == "llama" && part == "attn_k";
  name.plus_one = architecture == "gemma3" && part.ends_with("_norm");
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
    if (!renamed || (part == "attn_sinks" && ending != ".weight")) return std::nullopt;
    result.name = "model.layers." + std::string(stem.substr(4, end - 3)) + std::string(*renamed);
  } else {
    part = stem;
    const auto renamed = find(outer, part);
    if (!renamed) return std::nullopt;
    result.name = *renamed;
  }
  // Hugging Face has the sinks as a parameter of the attention.
  if (part != "attn_sinks") result.name += ending;
  note_changes(architecture, part, result);
  return result;
}

std::optional<GgufPlace> gguf_place_of(std::string_view architecture, std::string_view name) {
  const std::string plain = plain_name(name);
  const std::size_t dot = plain.rfind('.');
  if (dot == std::string::npos) return std::nullopt;
  const std::string ending = plain.substr(dot);
  if (ending != ".weight" && ending != ".bias") return std::nullopt;
  const std::string_view stem = std::string_view(plain).substr(0, dot);
  constexpr std::string_view layers = "model.layers.";
  GgufPlace place;
  std::optional<std::string_view> part;
  if (stem.starts_with(layers)) {
    const std::size_t end = stem.find('.', layers.size());
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view number = stem.substr(layers.size(), end - layers.size());
    if (!all_digits(number)) return std::nullopt;
    std::string within(stem.substr(end + 1));
    place.expert = take_expert(within);
    if (architecture == "gemma3") part = find_back(gemma_norms, within);
    if (!part) part = find_back(inner, within);
    if (!part || find_inner(architecture, *part) != std::string_view(within)) return std::nullopt;
    place.name.name = "blk." + std::string(number) + "." + std::string(*part) + ending;
  } else {
    part = find_back(outer, stem);
    if (!part) return std::nullopt;
    place.name.name = std::string(*part) + ending;
  }
  note_changes(architecture, *part, place.name);
  if (place.name.experts != place.expert.has_value()) return std::nullopt;
  return place;
}

}  // namespace microscale
