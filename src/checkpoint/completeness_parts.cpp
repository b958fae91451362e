#include "checkpoint/completeness_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>

#include "checkpoint/classifier.hpp"
#include "checkpoint/config_json.hpp"
#include "checkpoint/json.hpp"
#include "checkpoint/layer_stacks.hpp"
#include "checkpoint/tensor_name.hpp"
#include "report/units.hpp"

namespace microscale {
namespace {

using Entries = std::map<std::string, const TensorEntry*, std::less<>>;

// One layer of a stack: what it multiplies by, and its norms and biases, by their names within it.
struct Layer {
  std::set<std::string> matrices;
  Entries vectors;
};
using Layers = std::map<std::int64_t, Layer>;

// Norms that stand before what they belong to: after the last layer such models have one more.
constexpr std::array<std::string_view, 4> norms_before{"input_layernorm", "ln_1", "attention_norm",
                                                       "input_layer_norm"};

bool is_digits(std::string_view part) {
  return !part.empty() &&
         std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// "mlp.experts.3.up_proj" -> "mlp.experts.#.up_proj".
std::string without_numbers(std::string_view name) {
  std::string text;
  for (const std::string_view part : parts_of(name)) {
    text += (text.empty() ? "" : ".") + (is_digits(part) ? "#" : std::string(part));
  }
  return text;
}

class PartFinder {
 public:
  PartFinder(const ModelFolder& model, const ModelFacts& facts, std::vector<Gap>& gaps)
      : model_(model),
        facts_(facts),
        classifier_(classifier_of(model, facts)),
        tied_head_(tied_by(model)),
        gaps_(gaps) {}

  void find() {
    collect();
    for (const auto& [stack, layers] : stacks_) find_vectors(stack, layers);
    find_sizes();
    if (model_.whole_folder) find_encoders();
    if (!model_.whole_folder || !is_language_model()) return;
    for (const auto& [stack, layers] : stacks_) {
      const bool main = is_main_stack(stack) || names_language_model(stack);
      if (main && layers.size() > 1) find_ends(stack, layers);
    }
  }

 private:
  // tie_word_embeddings: true where any part of config.json says so, nothing where none does.
  static std::optional<bool> tied_by(const ModelFolder& model) {
    const auto config = model.config_text ? parse_config(*model.config_text)
                                          : Result<nlohmann::ordered_json>(Failure{});
    if (!config || !config.value().is_object()) return std::nullopt;
    std::optional<bool> tied;
    const auto look_at = [&](const nlohmann::ordered_json& part) {
      const auto* found = member(part, "tie_word_embeddings");
      if (found && found->is_boolean()) tied = tied.value_or(false) || found->get<bool>();
    };
    look_at(config.value());
    for (const auto& [key, part] : config.value().items()) {
      if (part.is_object()) look_at(part);
    }
    return tied;
  }

  static Classifier classifier_of(const ModelFolder& model, const ModelFacts& facts) {
    std::vector<const TensorEntry*> entries;
    for (const ModelTensor& tensor : model.tensors) entries.push_back(tensor.entry);
    // A norm is one in layers that config.json does not count, too.
    ModelFacts uncounted = facts;
    uncounted.layers.reset();
    return {entries, std::move(uncounted)};
  }

  void add(const char* rule, const std::string& name, std::string message, bool certain = true) {
    gaps_.push_back({rule, name, std::move(message), certain});
  }

  // "P.weight" and its like by P: "model.norm" is a norm.
  bool is_norm(std::string_view module) const {
    return classifier_.nature_of(module, {}) == Kept::norm;
  }

  static bool is_vector(const TensorEntry& entry) {
    const std::string_view leaf = leaf_of(entry.name);
    return entry.shape.size() == 1 && (leaf == "weight" || leaf == "bias" || leaf == "gamma" ||
                                       leaf == "beta" || leaf == "scale");
  }

  void collect() {
    for (const ModelTensor& tensor : model_.tensors) {
      if (model_.shards[tensor.shard].side) continue;
      const TensorEntry& entry = *tensor.entry;
      const auto place = repeated_layer_of(entry.name);
      if (!place) {
        outside_.push_back(&entry);
        continue;
      }
      Layer& layer = stacks_[std::string(place->stack)][place->number];
      const std::string_view owner = parent_of(entry.name);
      const bool vector = is_vector(entry) && parent_of(place->within) != "";
      if (vector && (is_norm(owner) || leaf_of(entry.name) == "bias")) {
        layer.vectors.emplace(place->within, &entry);
      } else if (entry.shape.size() >= 2) {
        // Codes and scales of a layer are its matrix, whatever they are called.
        const bool weight = leaf_of(entry.name).find("weight") != std::string_view::npos;
        const std::string_view within = weight ? parent_of(place->within) : place->within;
        layer.matrices.insert(without_numbers(within));
      }
    }
  }

  // What a family leaves out on purpose.
  bool may_lack(std::string_view vector, std::int64_t layer) const {
    const std::string_view module = leaf_of(parent_of(vector));
    if (module == "attn_norm" && layer == 0) return true;    // ModernBERT
    if (module == "ln0" || module == "pre_ln") return true;  // RWKV: of the first layer alone
    constexpr std::array<std::string_view, 4> of_keys{"k_norm", "v_norm", "k_proj", "v_proj"};
    return facts_.shared_keys && is_one_of(module, of_keys);
  }

  // Layers with the same matrices have the same norms and biases: what most have all should.
  void find_vectors(const std::string& stack, const Layers& layers) {
    if (facts_.uneven_layers) return;
    std::map<std::set<std::string>, std::vector<std::int64_t>> kinds;
    for (const auto& [number, layer] : layers) kinds[layer.matrices].push_back(number);
    for (const auto& [matrices, numbers] : kinds) {
      std::map<std::string, std::size_t> counts;
      for (const std::int64_t number : numbers) {
        for (const auto& [name, entry] : layers.at(number).vectors) ++counts[name];
      }
      for (const auto& [name, count] : counts) {
        if (count * 2 < numbers.size()) continue;
        for (const std::int64_t number : numbers) {
          const Layer& layer = layers.at(number);
          const std::string whole = fmt::format("{}.{}.{}", stack, number, name);
          if (const auto found = layer.vectors.find(name); found != layer.vectors.end()) {
            check_size(whole, *found->second, layers, numbers, name);
          } else if (!may_lack(name, number)) {
            add("part-missing", whole,
                fmt::format("{} is missing, which {} of {} layers with the same matrices have",
                            in_quotes(whole), count, numbers.size()));
          }
        }
      }
    }
  }

  // Norms of the residual stream are all as long as it is wide.
  void check_size(const std::string& whole, const TensorEntry& entry, const Layers& layers,
                  const std::vector<std::int64_t>& numbers, const std::string& name) {
    const std::vector<std::int64_t> wide{facts_.hidden_size.value_or(0)};
    if (!facts_.hidden_size || entry.shape == wide || !is_norm(parent_of(entry.name))) return;
    const bool others = std::any_of(numbers.begin(), numbers.end(), [&](std::int64_t number) {
      const auto found = layers.at(number).vectors.find(name);
      return found != layers.at(number).vectors.end() && found->second->shape == wide;
    });
    if (!others) return;
    add("part-size", whole,
        fmt::format("{} has {} elements, in other layers it has {}, the hidden_size of config.json",
                    in_quotes(whole), entry.shape[0], wide[0]),
        false);
  }

  // Embedding and output head against vocab_size, routers against the number of experts, the norm
  // after the layers against hidden_size.
  void find_sizes() {
    constexpr std::array<std::string_view, 6> tables{
        "embed_tokens", "wte", "tok_embeddings", "word_embeddings", "embed_in", "lm_head"};
    constexpr std::array<std::string_view, 2> routers{"gate", "router"};
    for (const ModelTensor& tensor : model_.tensors) {
      const TensorEntry& entry = *tensor.entry;
      const std::string_view module = module_of(entry.name), leaf = leaf_of(module);
      if (model_.shards[tensor.shard].side || !dense_type(entry.type) || entry.shape.size() != 2 ||
          module == entry.name) {
        continue;
      }
      const std::int64_t rows = entry.shape[0];
      const auto hold_against = [&](const std::optional<std::int64_t>& wanted, const char* key) {
        if (!wanted || rows >= *wanted) return;
        add("part-size", std::string(entry.name),
            fmt::format("{} has {} rows, but {} of config.json is {}", in_quotes(entry.name), rows,
                        key, *wanted),
            false);
      };
      if (is_one_of(leaf, tables)) hold_against(facts_.vocab_size, "vocab_size");
      const bool router =
          is_one_of(leaf, routers) && rows > 1 && classifier_.judge(entry).kept == Kept::router;
      if (router) hold_against(facts_.experts, "the number of experts");
    }
  }

  // All of an encoder that config.json describes: of images or sound, or before a decoder.
  void find_encoders() {
    const auto config = model_.config_text ? parse_config(*model_.config_text)
                                           : Result<nlohmann::ordered_json>(Failure{});
    if (!config || !config.value().is_object() || model_.tensors.empty()) return;
    bool seen = false, encodes = false;
    for (const ModelTensor& tensor : model_.tensors) {
      const auto parts = parts_of(tensor.name());
      encodes |= std::any_of(parts.begin(), parts.end(),
                             [](std::string_view part) { return part.ends_with("encoder"); });
      const Kept nature = classifier_.nature_of(module_of(tensor.name()), {});
      seen |= nature == Kept::vision || nature == Kept::audio || nature == Kept::projector ||
              nature == Kept::other_stack;
    }
    for (const auto& [key, value] : config.value().items()) {
      const bool tower = (key == "vision_config" || key == "audio_config") && value.is_object() &&
                         !value.empty() && !seen;
      const bool encoder =
          key == "encoder_layers" && value.is_number_integer() && value > 0 && !encodes;
      if (!tower && !encoder) continue;
      add("part-missing", key,
          fmt::format("config.json has {}, but no tensor is of an encoder", key), false);
    }
  }

  bool is_language_model() const {
    return std::any_of(facts_.architectures.begin(), facts_.architectures.end(),
                       [](const std::string& name) {
                         return name.ends_with("ForCausalLM") || name.ends_with("LMHeadModel") ||
                                name.ends_with("ForConditionalGeneration");
                       });
  }

  bool has_outside(Kept nature) const {
    return std::any_of(outside_.begin(), outside_.end(), [&](const TensorEntry* entry) {
      const std::string_view leaf = leaf_of(entry->name);
      const std::string_view module =
          leaf.find("weight") == leaf.npos ? std::string_view(entry->name) : parent_of(entry->name);
      const bool dense = dense_type(entry->type).has_value();
      return classifier_.nature_of(module, dense ? std::span<const std::int64_t>(entry->shape)
                                                 : std::span<const std::int64_t>()) == nature;
    });
  }

  // What comes before the first layer and after the last.
  void find_ends(const std::string& stack, const Layers& layers) {
    const std::string beside = stack.substr(0, stack.rfind('.') + 1);
    const bool before = std::any_of(layers.begin(), layers.end(), [](const auto& layer) {
      return std::any_of(
          layer.second.vectors.begin(), layer.second.vectors.end(),
          [](const auto& vector) { return is_one_of(parent_of(vector.first), norms_before); });
    });
    const TensorEntry* norm = nullptr;
    for (const TensorEntry* entry : outside_) {
      if (entry->name.starts_with(beside) && entry->shape.size() == 1 &&
          is_norm(parent_of(entry->name))) {
        norm = entry;
      }
    }
    if (before && !norm) {
      add("part-missing", beside + "norm",
          fmt::format("the norm after the layers of {} is missing", in_quotes(stack)));
    }
    if (norm && facts_.hidden_size && norm->shape[0] != *facts_.hidden_size &&
        parent_of(norm->name) == beside + "norm") {
      add("part-size", norm->name,
          fmt::format("{} has {} elements, but hidden_size of config.json is {}",
                      in_quotes(norm->name), norm->shape[0], *facts_.hidden_size),
          false);
    }
    const bool head = has_outside(Kept::output_head);
    if (!has_outside(Kept::embedding) && !(head && tied_head_.value_or(true))) {
      add("part-missing", beside + "embed_tokens",
          fmt::format("the embedding before the layers of {} is missing", in_quotes(stack)));
    }
    if (!head && tied_head_ == false) {
      add("part-missing", "lm_head",
          "the output head is missing, and config.json does not tie it to the embedding "
          "(tie_word_embeddings is false)");
    }
  }

  const ModelFolder& model_;
  const ModelFacts& facts_;
  const Classifier classifier_;
  const std::optional<bool> tied_head_;
  std::vector<Gap>& gaps_;
  std::map<std::string, Layers> stacks_;
  std::vector<const TensorEntry*> outside_;  // of the repeated layers
};

}  // namespace

void find_lost_parts(const ModelFolder& model, const ModelFacts& facts, std::vector<Gap>& gaps) {
  PartFinder(model, facts, gaps).find();
}

}  // namespace microscale
