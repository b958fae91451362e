#include "checkpoint/fused_groups.hpp"

#include <algorithm>
#include <array>

#include "checkpoint/tensor_name.hpp"

namespace microscale {
namespace {

struct Group {
  std::string_view members;  // comma-separated; no name is in two groups
  std::string_view fused;    // what vLLM calls the layer that it makes of them
};
constexpr std::array<Group, 17> groups{{
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

bool lists(std::string_view members, std::string_view leaf) {
  while (!members.empty()) {
    const std::size_t comma = std::min(members.find(','), members.size());
    if (members.substr(0, comma) == leaf) return true;
    members.remove_prefix(std::min(members.size(), comma + 1));
  }
  return false;
}

const Group* group_of(std::string_view leaf) {
  const auto found = std::find_if(groups.begin(), groups.end(),
                                  [&](const Group& group) { return lists(group.members, leaf); });
  return found == groups.end() ? nullptr : &*found;
}

// `leaf` in the place of the module's own.
std::string beside(std::string_view module, std::string_view leaf) {
  return std::string(module.substr(0, module.size() - leaf_of(module).size())).append(leaf);
}

}  // namespace

std::optional<std::string> fused_group_of(std::string_view module) {
  const Group* group = group_of(leaf_of(module));
  if (!group) return std::nullopt;
  return beside(module, "{" + std::string(group->members) + "}");
}

std::optional<std::string> fused_name_of(std::string_view module) {
  const Group* group = group_of(leaf_of(module));
  if (!group) return std::nullopt;
  return beside(module, group->fused);
}

std::optional<std::string_view> expert_layer_of(std::string_view module) {
  constexpr std::string_view word = "experts.";
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  for (std::size_t at = module.find(word); at != std::string_view::npos;
       at = module.find(word, at + 1)) {
    const std::size_t number = at + word.size();
    const std::size_t end = module.find('.', number);
    if ((at > 0 && module[at - 1] != '.') || end == std::string_view::npos || end == number) {
      continue;
    }
    const std::string_view digits = module.substr(number, end - number);
    if (std::all_of(digits.begin(), digits.end(), is_digit)) return module.substr(0, number - 1);
  }
  return std::nullopt;
}

}  // namespace microscale
