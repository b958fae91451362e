#include "checkpoint/containers/gguf_layers.hpp"

#include <algorithm>
#include <cctype>
#include <iterator>

namespace microscale {
namespace {

struct Entry {
  std::string_view name;  // behind "blk.N."
  bool scaled = true;
};

// Names and scales as llama-model.cpp of llama.cpp has them (its pass over "scale" tensors).
constexpr Entry layers[] = {
    {"attn_q"},
    {"attn_k"},
    {"attn_v"},
    {"attn_qkv"},
    {"attn_output"},
    {"attn_gate"},
    {"ffn_gate"},
    {"ffn_up"},
    {"ffn_down"},
    {"ffn_gate_shexp"},
    {"ffn_up_shexp"},
    {"ffn_down_shexp"},
    {"ssm_in"},
    {"ssm_out"},
    {"attn_q_a", false},
    {"attn_q_b", false},
    {"attn_kv_a_mqa", false},
    {"attn_kv_b", false},
    {"ffn_gate_chexps", false},
};

constexpr Entry expert_layers[] = {
    {"ffn_gate_exps"},           {"ffn_up_exps"},     {"ffn_down_exps"},
    {"ffn_gate_up_exps", false}, {"attn_k_b", false}, {"attn_v_b", false},
};

const Entry* find(const Entry* begin, const Entry* end, std::string_view name) {
  const Entry* found =
      std::find_if(begin, end, [&](const Entry& entry) { return entry.name == name; });
  return found == end ? nullptr : found;
}

GgufLayer kept(Kept why, std::string_view reason, bool linear = false) {
  return {.linear = linear, .kept = why, .reason = reason};
}

GgufLayer inside_layers(std::string_view part) {
  if (const Entry* entry = find(std::begin(layers), std::end(layers), part)) {
    return {.linear = true, .reason = "linear weight", .scaled = entry->scaled};
  }
  if (const Entry* entry = find(std::begin(expert_layers), std::end(expert_layers), part)) {
    return {
        .linear = true, .reason = "weights of experts", .experts = true, .scaled = entry->scaled};
  }
  if (part.find("norm") != std::string_view::npos) return kept(Kept::norm, "norm");
  if (part.starts_with("ffn_gate_inp")) return kept(Kept::router, "router");
  if (part.starts_with("nextn.")) return kept(Kept::prediction_layer, "prediction layer");
  return kept(Kept::other_stack, "not one of the layers that are quantized in GGUF files");
}

}  // namespace

bool applies_gguf_scales(std::string_view architecture) {
  constexpr std::string_view known[] = {"llama", "qwen2", "qwen3", "qwen3moe", "gemma3"};
  return std::find(std::begin(known), std::end(known), architecture) != std::end(known);
}

bool leaves_out_gguf_scale(std::string_view architecture, std::string_view tensor_name) {
  if (architecture != "qwen2" && architecture != "gemma3") return false;
  constexpr std::string_view feed_forward[] = {".ffn_gate.weight", ".ffn_up.weight",
                                               ".ffn_down.weight"};
  return std::any_of(std::begin(feed_forward), std::end(feed_forward),
                     [&](std::string_view ending) { return tensor_name.ends_with(ending); });
}

GgufLayer gguf_layer_of(std::string_view tensor_name) {
  constexpr std::string_view ending = ".weight", layer = "blk.";
  if (!tensor_name.ends_with(ending)) return kept(Kept::no_weight, "no weight of a layer");
  std::string_view stem = tensor_name.substr(0, tensor_name.size() - ending.size());
  if (stem == "token_embd") return kept(Kept::embedding, "embedding");
  if (stem == "output") return kept(Kept::output_head, "output head", true);
  if (!stem.starts_with(layer)) {
    return stem.ends_with("norm") ? kept(Kept::norm, "norm")
                                  : kept(Kept::outside, "outside the repeated layers");
  }
  stem.remove_prefix(layer.size());
  const std::size_t dot = stem.find('.');
  const bool numbered = dot != std::string_view::npos && dot > 0 &&
                        std::all_of(stem.begin(), stem.begin() + static_cast<std::ptrdiff_t>(dot),
                                    [](unsigned char c) { return std::isdigit(c) != 0; });
  if (!numbered) return kept(Kept::outside, "outside the repeated layers");
  return inside_layers(stem.substr(dot + 1));
}

}  // namespace microscale
