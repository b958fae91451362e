// Reading tensor names: one table of what each family of models calls its matrices.
#include "report/tensor_kind.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <vector>

namespace microscale {
namespace {

using Parts = std::vector<std::string_view>;

/// Leaf names of the models in use, and what each is called here. `where` tells apart leaves that
/// mean different things in attention ('a') and elsewhere ('m'); '*' is either.
struct Alias {
  std::string_view leaf;
  char where;
  std::string_view kind;
};

constexpr std::array aliases = {
    Alias{"q_proj", '*', "q_proj"},
    Alias{"query", '*', "q_proj"},
    Alias{"query_proj", '*', "q_proj"},
    Alias{"q", 'a', "q_proj"},
    Alias{"wq", '*', "q_proj"},
    Alias{"q_lin", '*', "q_proj"},
    Alias{"to_q", '*', "q_proj"},
    Alias{"k_proj", '*', "k_proj"},
    Alias{"key", '*', "k_proj"},
    Alias{"key_proj", '*', "k_proj"},
    Alias{"k", 'a', "k_proj"},
    Alias{"wk", '*', "k_proj"},
    Alias{"k_lin", '*', "k_proj"},
    Alias{"to_k", '*', "k_proj"},
    Alias{"v_proj", '*', "v_proj"},
    Alias{"value", '*', "v_proj"},
    Alias{"value_proj", '*', "v_proj"},
    Alias{"v", 'a', "v_proj"},
    Alias{"wv", '*', "v_proj"},
    Alias{"v_lin", '*', "v_proj"},
    Alias{"to_v", '*', "v_proj"},
    Alias{"qkv_proj", '*', "qkv_proj"},
    Alias{"qkv", '*', "qkv_proj"},
    Alias{"Wqkv", '*', "qkv_proj"},
    Alias{"wqkv", '*', "qkv_proj"},
    Alias{"c_attn", '*', "qkv_proj"},
    Alias{"query_key_value", '*', "qkv_proj"},
    Alias{"in_proj", 'a', "qkv_proj"},
    Alias{"in_proj_weight", 'a', "qkv_proj"},
    Alias{"in_proj", 'm', "in_proj"},
    Alias{"q_a_proj", '*', "q_a_proj"},
    Alias{"q_b_proj", '*', "q_b_proj"},
    Alias{"kv_a_proj_with_mqa", '*', "kv_a_proj"},
    Alias{"kv_b_proj", '*', "kv_b_proj"},
    Alias{"o_proj", '*', "o_proj"},
    Alias{"out_proj", 'a', "o_proj"},
    Alias{"out_proj", 'm', "out_proj"},
    Alias{"o", 'a', "o_proj"},
    Alias{"wo", 'a', "o_proj"},
    Alias{"wo", 'm', "down_proj"},
    Alias{"out_lin", 'a', "o_proj"},
    Alias{"c_proj", 'a', "o_proj"},
    Alias{"proj", 'a', "o_proj"},
    Alias{"dense", 'a', "o_proj"},
    Alias{"router", '*', "router"},
    Alias{"gate", 'm', "router"},
    Alias{"gate_up_proj", '*', "gate_up_proj"},
    Alias{"gate_proj", '*', "gate_proj"},
    Alias{"w1", 'm', "gate_proj"},
    Alias{"wi_0", 'm', "gate_proj"},
    Alias{"up_proj", '*', "up_proj"},
    Alias{"w3", 'm', "up_proj"},
    Alias{"wi_1", 'm', "up_proj"},
    Alias{"wi", 'm', "up_proj"},
    Alias{"fc1", '*', "up_proj"},
    Alias{"fc_in", 'm', "up_proj"},
    Alias{"c_fc", '*', "up_proj"},
    Alias{"lin1", 'm', "up_proj"},
    Alias{"dense_h_to_4h", '*', "up_proj"},
    Alias{"down_proj", '*', "down_proj"},
    Alias{"w2", 'm', "down_proj"},
    Alias{"fc2", '*', "down_proj"},
    Alias{"fc_out", 'm', "down_proj"},
    Alias{"c_proj", 'm', "down_proj"},
    Alias{"lin2", 'm', "down_proj"},
    Alias{"dense_4h_to_h", '*', "down_proj"},
};

constexpr std::array attention_kinds = {"qkv_proj", "q_proj",    "k_proj",    "v_proj", "q_a_proj",
                                        "q_b_proj", "kv_a_proj", "kv_b_proj", "o_proj"};
constexpr std::array mlp_kinds = {"router",    "gate_up_proj", "gate_proj", "up_proj",
                                  "down_proj", "in_proj",      "out_proj"};

Parts split(std::string_view name) {
  Parts parts;
  while (true) {
    const std::size_t dot = name.find('.');
    parts.push_back(name.substr(0, dot));
    if (dot == std::string_view::npos) return parts;
    name.remove_prefix(dot + 1);
  }
}

std::optional<int> number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || value < 0)
    return {};
  return value;
}

bool has(std::string_view text, std::string_view piece) {
  return text.find(piece) != std::string_view::npos;
}

std::string_view without_suffix(std::string_view text) {
  for (const std::string_view suffix : {"_blocks", "_scales", "_packed"}) {
    if (text.size() > suffix.size() && text.ends_with(suffix)) text.remove_suffix(suffix.size());
  }
  return text;
}

/// Index of the part that says "layers", a number behind it; parts.size() if there is none.
std::size_t layer_mark(const Parts& parts) {
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
    const std::string_view part = parts[i];
    const bool mark = part == "h" || part.ends_with("layers") || part.ends_with("layer") ||
                      part.ends_with("blocks") || part.ends_with("block");
    if (mark && number(parts[i + 1])) return i;
  }
  return parts.size();
}

std::string stack_of(const Parts& parts, std::size_t end) {
  std::string stack;
  for (std::size_t i = 0; i < end; ++i) {
    if (has(parts[i], "vision") || has(parts[i], "visual")) return "vision";
    if (has(parts[i], "audio")) return "audio";
    if (has(parts[i], "mtp")) return "mtp";
    if (has(parts[i], "encoder")) stack = "encoder";
    if (has(parts[i], "decoder")) stack = "decoder";
  }
  return stack;
}

}  // namespace

TensorPlace tensor_kind(std::string_view name) {
  TensorPlace result;
  const Parts parts = split(name);
  const std::size_t mark = layer_mark(parts);
  if (mark == parts.size()) return result;
  result.stack = stack_of(parts, mark);
  result.layer = *number(parts[mark + 1]);

  // The module is the last part that is not the name of its parameter.
  std::size_t leaf = parts.size() - 1;
  if (parts[leaf].ends_with("bias")) return result;
  if (parts[leaf].starts_with("weight") && leaf > mark + 2) --leaf;
  bool attention = false, cross = false, experts = false, shared = false;
  for (std::size_t i = mark + 2; i < leaf; ++i) {
    attention = attention || has(parts[i], "att") || has(parts[i], "Att");
    cross = cross || has(parts[i], "cross") || parts[i] == "EncDecAttention" ||
            parts[i] == "encoder_attn";
    shared = shared || parts[i].starts_with("shared_expert");
    if (parts[i] == "experts") {
      experts = true;
      result.expert = number(parts[i + 1]).value_or(-1);
    }
  }
  const std::string_view module = without_suffix(parts[leaf]);
  std::string_view kind;
  for (const Alias& alias : aliases) {
    const bool here = alias.where == '*' || (alias.where == 'a') == attention;
    if (here && alias.leaf == module) kind = alias.kind;
  }
  // BERT: intermediate.dense widens, output.dense comes back.
  if (kind.empty() && module == "dense" && leaf > mark + 2) {
    if (parts[leaf - 1] == "intermediate") kind = "up_proj";
    if (parts[leaf - 1] == "output") kind = "down_proj";
  }
  if (kind.empty()) return result;
  const bool in_expert = kind != "router";
  result.kind = cross                  ? "cross."
                : shared && in_expert  ? "shared."
                : experts && in_expert ? "experts."
                                       : "";
  result.kind += kind;
  return result;
}

int kind_order(std::string_view kind) {
  int base = 0;
  for (const auto& [prefix, offset] :
       {std::pair<std::string_view, int>{"cross.", 20}, {"shared.", 60}, {"experts.", 80}}) {
    if (kind.starts_with(prefix)) {
      base = offset;
      kind.remove_prefix(prefix.size());
    }
  }
  const auto* attention = std::find(attention_kinds.begin(), attention_kinds.end(), kind);
  if (attention != attention_kinds.end()) {
    return base + static_cast<int>(attention - attention_kinds.begin());
  }
  const auto* mlp = std::find(mlp_kinds.begin(), mlp_kinds.end(), kind);
  if (mlp == mlp_kinds.end()) return 1000;
  return (base == 0 ? 40 : base) + static_cast<int>(mlp - mlp_kinds.begin());
}

}  // namespace microscale
