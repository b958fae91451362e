#include "checkpoint/completeness_families.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>

#include "checkpoint/config_json.hpp"
#include "checkpoint/json.hpp"
#include "checkpoint/layer_stacks.hpp"
#include "checkpoint/tensor_name.hpp"

namespace microscale {
namespace {

using Names = std::set<std::string, std::less<>>;
using Parts = std::map<std::string, std::vector<Names>>;  // by the module that holds them: choices
using Layer = std::map<std::string, Names>;
using Layers = std::map<std::int64_t, Layer>;

// Fewer than these show no kind: a drafter of one layer leaves out what the model's own have.
constexpr std::size_t least_layers = 2;

std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words;
  while (!line.empty()) {
    const std::size_t end = std::min(line.find(' '), line.size());
    if (end > 0) words.emplace_back(line.substr(0, end));
    line.remove_prefix(std::min(end + 1, line.size()));
  }
  return words;
}

std::map<std::string, Parts> read_families() {
  std::vector<std::vector<std::string>> sentences;  // between the semicolons
  std::string_view text = parts_of_families();
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    for (std::string& word : words_of(text.substr(0, end))) {
      if (word == "+") continue;
      if (word == "=" || word == ";") sentences.emplace_back();
      if (word != ";") sentences.back().push_back(std::move(word));
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  std::map<std::string, Parts> families;
  std::vector<std::string> types;
  for (const auto& words : sentences) {
    if (words.front() == "=") {
      types.assign(words.begin() + 1, words.end());
      continue;
    }
    for (const std::string& type : types) {
      families[type][words.front()].emplace_back(words.begin() + 1, words.end());
    }
  }
  return families;
}

const Parts* family_of(const ModelFacts& facts) {
  static const std::map<std::string, Parts> families = read_families();
  const auto found =
      families.find(facts.text_model_type.empty() ? facts.model_type : facts.text_model_type);
  return found == families.end() ? nullptr : &found->second;
}

bool is_number(std::string_view part) {
  return !part.empty() &&
         std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// What old files hold beside their parameters.
bool is_buffer(std::string_view name) {
  constexpr std::array<std::string_view, 4> words{"rotary", "inv_freq", "masked_bias",
                                                  "position_ids"};
  return name.ends_with("attn.bias") ||
         std::any_of(words.begin(), words.end(),
                     [&](std::string_view word) { return name.find(word) != name.npos; });
}

bool is_bias(std::string_view name) { return name.ends_with("bias"); }

bool is_norm(std::string_view name) {
  return name.find("norm") != name.npos || name.starts_with("ln_") || name.ends_with("_ln");
}

// Of queries and keys: an option in many families.
bool is_inner_norm(std::string_view name) {
  constexpr std::array<std::string_view, 8> names{"q_norm",      "k_norm",          "v_norm",
                                                  "q_layernorm", "query_layernorm", "key_layernorm",
                                                  "k_layernorm", "v_layernorm"};
  return is_one_of(name, names);
}

// Families whose layers have these norms whatever config.json says.
bool always_has_inner_norms(std::string_view type) {
  constexpr std::array<std::string_view, 9> types{"qwen3", "gemma3",    "gemma4", "olmo2",  "olmo3",
                                                  "olmoe", "flex_olmo", "lfm2",   "exaone4"};
  return std::any_of(types.begin(), types.end(),
                     [&](std::string_view known) { return type.starts_with(known); });
}

class FamilyCheck {
 public:
  FamilyCheck(const ModelFolder& model, const ModelFacts& facts, std::vector<Gap>& gaps)
      : model_(model), facts_(facts), gaps_(gaps), biases_are_off_(says_no_bias()) {}

  void run() {
    if (facts_.uneven_layers || !(model_.whole_folder || model_.is_gguf)) return;
    collect();
    const Parts* family = family_of(facts_);
    for (const auto& [stack, layers] : stacks_) {
      if (layers.size() < least_layers) continue;
      const std::size_t before = gaps_.size();
      if (family) {
        for (const auto& [parent, choices] : *family) check(stack, layers, parent, choices);
      }
      if (gaps_.size() == before) look_for_norms(stack, layers);
    }
  }

 private:
  void collect() {
    for (const ModelTensor& tensor : model_.tensors) {
      if (model_.shards[tensor.shard].side) continue;
      const TensorEntry& entry = *tensor.entry;
      const std::string_view leaf = leaf_of(entry.name), module = parent_of(entry.name);
      const bool weight = !module.empty() && (leaf.starts_with("weight") || leaf == "qweight");
      if (!weight && (entry.shape.empty() || is_buffer(entry.name))) continue;
      const auto place = repeated_layer_of(weight ? module : std::string_view(entry.name));
      if (!place || !(is_main_stack(place->stack) || names_language_model(place->stack))) continue;
      if (facts_.layers && place->number >= *facts_.layers) continue;  // prediction layers
      add(stacks_[std::string(place->stack)][place->number], place->within);
    }
  }

  static void add(Layer& layer, std::string_view within) {
    std::string parent = ".";
    std::string_view before;
    const auto parts = parts_of(within);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      std::string_view part = parts[i];
      if (i + 2 == parts.size() && parts.back() == "bias" && !is_number(part)) {
        layer[parent].emplace(std::string(part) + ".bias");
        return;
      }
      if (is_number(part)) {
        if (before != "experts" && before != "moe") return;
        part = "#";  // of all experts
      }
      before = part;
      layer[parent].emplace(part);
      parent = (parent == "." ? "" : parent + ".") + std::string(part);
    }
  }

  // What config.json may switch off, or another way of writing the family has not.
  bool is_optional(std::string_view name) const {
    const std::string& type =
        facts_.text_model_type.empty() ? facts_.model_type : facts_.text_model_type;
    if (is_bias(name) && biases_are_off_) return true;
    if (is_inner_norm(name)) return !always_has_inner_norms(type) || facts_.shared_keys;
    constexpr std::array<std::string_view, 2> keys{"k_proj", "v_proj"};
    if (facts_.shared_keys && is_one_of(name, keys)) return true;
    constexpr std::array<std::string_view, 5> of_experts{"experts", "gate", "router", "moe",
                                                         "block_sparse_moe"};
    if (facts_.experts == 0 && is_one_of(name, of_experts)) return true;
    // Attention and MLP beside each other.
    if (type == "stablelm" && name.starts_with("post_attention_layernorm")) return true;
    // Gemma 4 without embeddings for each layer.
    const bool of_layer = name.starts_with("per_layer_") || name == "post_per_layer_input_norm";
    // Of sparse attention, which not every layer has.
    const bool of_sparse = name == "compressor" || name == "indexer";
    return of_layer || of_sparse || name.find("share") != name.npos || name == "moe_statics";
  }

  void check(const std::string& stack, const Layers& layers, const std::string& parent,
             const std::vector<Names>& choices) {
    Names known, anywhere;
    for (const Names& choice : choices) known.insert(choice.begin(), choice.end());
    bool other_norms = false;
    for (const auto& [number, layer] : layers) {
      const auto found = layer.find(parent);
      if (found == layer.end()) continue;
      for (const std::string& name : found->second) {
        anywhere.insert(name);
        if (!known.contains(name) && is_norm(name) && !is_bias(name)) other_norms = true;
      }
    }
    Names lost;
    for (const auto& [number, layer] : layers) {
      const auto found = layer.find(parent);
      if (found == layer.end()) continue;
      const Names& names = found->second;
      add_lost(names, choices, anywhere, other_norms, lost);
    }
    for (const std::string& name : lost) {
      std::string part = parent == "." ? name : parent + "." + name;
      std::replace(part.begin(), part.end(), '#', '*');
      gaps_.push_back(
          {"part-missing", fmt::format("{}.*.{}", stack, part),
           fmt::format("no layer of {} has {}, which models of type {} have", in_quotes(stack),
                       in_quotes(part),
                       in_quotes(facts_.text_model_type.empty() ? facts_.model_type
                                                                : facts_.text_model_type))});
    }
  }

  // What one layer lacks of the nearest of the choices, if no layer has any of it.
  void add_lost(const Names& names, const std::vector<Names>& choices, const Names& anywhere,
                bool other_norms, Names& lost) const {
    std::optional<Names> least;
    for (const Names& choice : choices) {
      // With modules that this kind of layer does not have it is of another kind.
      const bool alike = std::all_of(names.begin(), names.end(), [&](const std::string& name) {
        return choice.contains(name) || is_norm(name) || is_bias(name);
      });
      if (!alike) continue;
      Names missing;
      for (const std::string& name : choice) {
        if (names.contains(name) || is_optional(name) || (other_norms && is_norm(name))) continue;
        missing.insert(name);
      }
      if (missing.empty()) return;
      const bool elsewhere = std::any_of(missing.begin(), missing.end(),
                                         [&](const auto& name) { return anywhere.contains(name); });
      if (!elsewhere && (!least || missing.size() < least->size())) least = std::move(missing);
    }
    if (least) lost.insert(least->begin(), least->end());
  }

  void look_for_norms(const std::string& stack, const Layers& layers) {
    std::size_t parts = 0;
    for (const auto& [number, layer] : layers) {
      for (const auto& [parent, names] : layer) {
        parts += names.size();
        if (is_norm(leaf_of(parent))) return;
        if (std::any_of(names.begin(), names.end(), [](const auto& name) { return is_norm(name); }))
          return;
      }
    }
    const std::string key = norm_constant();
    constexpr std::size_t least_parts = 4;  // of a layer
    if (key.empty() || parts < least_parts * layers.size()) return;
    gaps_.push_back(
        {"part-missing", stack + ".*",
         fmt::format("no layer of {} has a norm, though config.json has {}", in_quotes(stack), key),
         false});
  }

  // "attention_bias": false, "use_bias": false, ...
  bool says_no_bias() const {
    const auto config = model_.config_text ? parse_config(*model_.config_text)
                                           : Result<nlohmann::ordered_json>(Failure{});
    if (!config || !config.value().is_object()) return false;
    const auto says = [](const nlohmann::ordered_json& part) {
      for (const auto& [key, value] : part.items()) {
        if (key.find("bias") != key.npos && value == false) return true;
      }
      return false;
    };
    if (says(config.value())) return true;
    for (const auto& [key, part] : config.value().items()) {
      if (key.ends_with("_config") && part.is_object() && says(part)) return true;
    }
    return false;
  }

  // "rms_norm_eps": the number that keeps norms from dividing by 0; empty: config.json has none.
  std::string norm_constant() const {
    const auto config = model_.config_text ? parse_config(*model_.config_text)
                                           : Result<nlohmann::ordered_json>(Failure{});
    // Norms without weights.
    if (!config || !config.value().is_object() || facts_.model_type == "nanochat") return "";
    for (const auto& [key, value] : config.value().items()) {
      const bool norm = key.find("norm") != key.npos;
      if (norm && key.find("eps") != key.npos && !value.is_null()) return key;
    }
    return "";
  }

  const ModelFolder& model_;
  const ModelFacts& facts_;
  std::vector<Gap>& gaps_;
  const bool biases_are_off_;
  std::map<std::string, Layers> stacks_;
};

}  // namespace

void find_parts_of_no_layer(const ModelFolder& model, const ModelFacts& facts,
                            std::vector<Gap>& gaps) {
  FamilyCheck(model, facts, gaps).run();
}

}  // namespace microscale
