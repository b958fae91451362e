#include "checkpoint/fused_groups.hpp"

#include <algorithm>
#include <array>

#include "checkpoint/recipe.hpp"

namespace microscale {
namespace {

// Comma-separated members; no name is in two groups.
constexpr std::array<std::string_view, 11> groups{
    "q_proj,k_proj,v_proj",            // Llama and most others
    "query,key,value",                 // BERT
    "q_lin,k_lin,v_lin",               // DistilBERT
    "query_proj,key_proj,value_proj",  // DeBERTa
    "wq,wk,wv",                        // Llama as first released
    "gate_proj,up_proj",               // Llama
    "w1,w3",                           // Mixtral, DeepSeek
    "q_a_proj,kv_a_proj_with_mqa",     // DeepSeek V2, V3
    "wq_a,wkv_a,wkv_a_with_mqa",       // DeepSeek as released
    "in_proj_qkv,in_proj_z",           // Qwen3-Next linear attention
    "in_proj_b,in_proj_a",
};

bool lists(std::string_view members, std::string_view leaf) {
  while (!members.empty()) {
    const std::size_t comma = std::min(members.find(','), members.size());
    if (members.substr(0, comma) == leaf) return true;
    members.remove_prefix(std::min(members.size(), comma + 1));
  }
  return false;
}

}  // namespace

std::optional<std::string> fused_group_of(std::string_view module) {
  const std::string_view leaf = leaf_of(module);
  for (const std::string_view members : groups) {
    if (!lists(members, leaf)) continue;
    std::string name(module.substr(0, module.size() - leaf.size()));
    return name.append("{").append(members).append("}");
  }
  return std::nullopt;
}

}  // namespace microscale
