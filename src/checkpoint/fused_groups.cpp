#include "checkpoint/fused_groups.hpp"

#include <algorithm>
#include <array>

#include "checkpoint/tensor_name.hpp"

namespace microscale {
namespace {

// Where names alone mean other things elsewhere.
enum class Place {
  anywhere,
  mlp_of_h,      // "h.3.mlp.w1": elsewhere w1 is the partner of w3, and w2 comes after both
  numbered_moe,  // "moe.3.linear"
  linear_attention,
};

struct Group {
  std::string_view members;  // comma-separated
  std::string_view fused;    // what vLLM calls the layer that it makes of them
  Place place = Place::anywhere;
};
// The first that fits counts.
constexpr std::array<Group, 20> groups{{
    {"w1,w2", "gate_up_proj", Place::mlp_of_h},                                // Qwen 1
    {"linear,linear_v", "gate_up_proj", Place::numbered_moe},                  // Grok 1
    {"q_proj,k_proj,v_proj,g_proj", "in_proj_qkvg", Place::linear_attention},  // Olmo Hybrid
    {"q_proj,k_proj,v_proj", "qkv_proj"},                 // Llama and most others
    {"query,key,value", "qkv_proj"},                      // BERT
    {"q_lin,k_lin,v_lin", "qkv_proj"},                    // DistilBERT
    {"query_proj,key_proj,value_proj", "qkv_proj"},       // DeBERTa
    {"wq,wk,wv", "qkv_proj"},                             // Llama as first released
    {"gate_proj,up_proj", "gate_up_proj"},                // Llama
    {"w1,w3", "gate_up_proj"},                            // Mixtral, DeepSeek
    {"q_a_proj,kv_a_proj_with_mqa", "fused_qkv_a_proj"},  // DeepSeek V2, V3
    {"wq_a,wkv_a,wkv_a_with_mqa,wkv", "fused_wqa_wkv"},   // DeepSeek as released; V4: wkv
    {"in_proj_qkv,in_proj_z", "in_proj_qkvz"},            // Qwen3.5 linear attention
    {"in_proj_b,in_proj_a", "in_proj_ba"},
    {"to_q,to_k,to_v", "to_qkv"},                         // diffusers
    {"add_q_proj,add_k_proj,add_v_proj", "add_kv_proj"},  // the same for the text stream
    {"q,k,v", "qkv_proj"},                                // T5, Wan
    {"wi_0,wi_1", "wi"},                                  // T5
    {"c_fc_0,c_fc_1", "gate_up_proj"},                    // EXAONE
    {"fc11,fc12", "gate_up_proj"},                        // Nomic BERT
}};

bool is_number(std::string_view part) {
  return !part.empty() &&
         std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool lies_in(Place place, std::string_view module) {
  const std::string_view parent = parent_of(module), above = parent_of(parent);
  switch (place) {
    case Place::anywhere:
      return true;
    case Place::mlp_of_h:
      return leaf_of(parent) == "mlp" && is_number(leaf_of(above)) &&
             leaf_of(parent_of(above)) == "h";
    case Place::numbered_moe:
      return is_number(leaf_of(parent)) && leaf_of(above) == "moe";
    case Place::linear_attention:
      return leaf_of(parent) == "linear_attn";
  }
  return false;
}

bool lists(std::string_view members, std::string_view leaf) {
  while (!members.empty()) {
    const std::size_t comma = std::min(members.find(','), members.size());
    if (members.substr(0, comma) == leaf) return true;
    members.remove_prefix(std::min(members.size(), comma + 1));
  }
  return false;
}

const Group* group_of(std::string_view module) {
  const auto found = std::find_if(groups.begin(), groups.end(), [&](const Group& group) {
    return lists(group.members, leaf_of(module)) && lies_in(group.place, module);
  });
  return found == groups.end() ? nullptr : &*found;
}

// `leaf` in the place of the module's own.
std::string beside(std::string_view module, std::string_view leaf) {
  return std::string(module.substr(0, module.size() - leaf_of(module).size())).append(leaf);
}

}  // namespace

std::optional<std::string> fused_group_of(std::string_view module) {
  const Group* group = group_of(module);
  if (!group) return std::nullopt;
  return beside(module, "{" + std::string(group->members) + "}");
}

std::optional<std::string> fused_name_of(std::string_view module) {
  const Group* group = group_of(module);
  if (!group) return std::nullopt;
  return beside(module, group->fused);
}

std::optional<std::string_view> expert_layer_of(std::string_view module) {
  for (std::string_view expert = parent_of(module); !expert.empty(); expert = parent_of(expert)) {
    const std::string_view layer = parent_of(expert), word = leaf_of(layer);
    // "moe.3.linear": Grok 1, whose experts have no module of their own.
    if (is_number(leaf_of(expert)) && (word == "experts" || word == "moe")) return layer;
  }
  return std::nullopt;
}

}  // namespace microscale
