#include "checkpoint/completeness.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <set>

#include "checkpoint/completeness_families.hpp"
#include "checkpoint/completeness_parts.hpp"
#include "checkpoint/json.hpp"
#include "checkpoint/layer_stacks.hpp"
#include "checkpoint/model_files.hpp"
#include "checkpoint/stray_weights.hpp"
#include "checkpoint/tensor_name.hpp"

namespace microscale {
namespace {

using Names = std::set<std::string, std::less<>>;
using Numbers = std::set<std::int64_t>;

constexpr std::int64_t largest_number = 1'000'000;  // beyond this it counts something else
// Modules that every such layer has, and fewer than these show none.
constexpr std::size_t least_modules = 4;

std::optional<std::int64_t> number_in(std::string_view part) {
  std::int64_t number = -1;
  const auto parsed = std::from_chars(part.data(), part.data() + part.size(), number);
  const bool all = parsed.ec == std::errc() && parsed.ptr == part.data() + part.size();
  return all && number >= 0 && number <= largest_number ? std::optional(number) : std::nullopt;
}

// The module whose weight this is, quantized or not, or the name of a parameter without a module;
// empty for biases, scales and the like.
std::string_view owner_of(const TensorEntry& entry) {
  const std::string_view leaf = leaf_of(entry.name), module = parent_of(entry.name);
  if (!module.empty() && (leaf.starts_with("weight") || leaf == "qweight")) return module;
  return entry.shape.size() >= 2 ? std::string_view(entry.name) : std::string_view();
}

// "a.experts.3.up" -> "a.experts.#.up": the same in every layer.
std::string without_numbers(std::string_view name) {
  std::string text;
  for (const std::string_view part : parts_of(name)) {
    text += (text.empty() ? "" : ".") + (number_in(part) ? "#" : std::string(part));
  }
  return text;
}

std::string list_of(const std::vector<std::int64_t>& numbers) {
  std::string text;
  constexpr std::size_t shown = 5;
  for (std::size_t i = 0; i < std::min(shown, numbers.size()); ++i) {
    text += fmt::format("{}{}", i > 0 ? ", " : "", numbers[i]);
  }
  return numbers.size() > shown ? text + ", ..." : text;
}

std::vector<std::int64_t> missing_of(const Numbers& present, std::int64_t begin, std::int64_t end) {
  std::vector<std::int64_t> missing;
  for (std::int64_t i = begin; i < end; ++i) {
    if (!present.contains(i)) missing.push_back(i);
  }
  return missing;
}

const char* is_or_are(std::size_t count) { return count == 1 ? "is" : "are"; }

// Layers that belong together: { "gate_proj", "up_proj", "down_proj" }.
using Kin = std::vector<std::string_view>;
const std::array<Kin, 10> kins{{{"q_proj", "k_proj", "v_proj", "o_proj"},
                                {"query", "key", "value"},
                                {"q_lin", "k_lin", "v_lin"},
                                {"wq", "wk", "wv", "wo"},
                                {"to_q", "to_k", "to_v"},
                                {"gate_proj", "up_proj", "down_proj"},
                                {"w1", "w2", "w3"},
                                {"fc1", "fc2"},
                                {"wi_0", "wi_1"},
                                {"gate", "experts"}}};
constexpr std::size_t attention_kins = 5;

// No layer has the first without the second.
constexpr std::array<std::pair<std::string_view, std::string_view>, 7> inseparable{
    {{"gate_proj", "up_proj"},
     {"gate_proj", "down_proj"},
     {"w3", "w1"},
     {"w1", "w2"},
     {"q_proj", "k_proj"},
     {"q_proj", "v_proj"},
     {"k_proj", "v_proj"}}};

class GapFinder {
 public:
  GapFinder(const ModelFolder& model, const ModelFacts& facts) : model_(model), facts_(facts) {}

  std::vector<Gap> find() {
    if (!model_.whole_folder && is_numbered_shard(model_.shards.front().name)) return {};
    collect();
    find_files();
    find_layers();
    find_experts();
    find_partners();
    find_lost_experts(model_, facts_, gaps_);
    find_lost_parts(model_, facts_, gaps_);
    find_parts_of_no_layer(model_, facts_, gaps_);
    return std::move(gaps_);
  }

 private:
  struct ExpertLayer {
    std::map<std::int64_t, Names> experts;  // number -> parts
    Names parts;                            // of any
  };

  void collect() {
    for (const ModelTensor& tensor : model_.tensors) {
      if (model_.shards[tensor.shard].side) continue;
      const std::string_view owner = owner_of(*tensor.entry);
      if (owner.empty()) continue;
      if (const auto layer = repeated_layer_of(owner)) {
        stacks_[std::string(layer->stack)][layer->number].emplace(layer->within);
      }
      const auto parts = parts_of(owner);
      std::string parent;
      for (std::size_t i = 0; i < parts.size(); ++i) {
        children_[parent].emplace(parts[i]);
        const bool of_experts = i > 0 && (parts[i - 1] == "experts" || parts[i - 1] == "moe");
        const auto number = of_experts && i + 1 < parts.size() ? number_in(parts[i]) : std::nullopt;
        if (number) {
          const auto at = static_cast<std::size_t>(parts[i].data() - owner.data());
          const std::string part(owner.substr(at + parts[i].size() + 1));
          ExpertLayer& layer = experts_[parent];
          layer.parts.insert(part);
          layer.experts[*number].insert(part);
        }
        parent += (parent.empty() ? "" : ".") + std::string(parts[i]);
      }
    }
  }

  void add(const char* rule, std::string name, std::string message) {
    gaps_.push_back({rule, std::move(name), std::move(message)});
  }

  // Files that the numbers in the names of others promise.
  void find_files() {
    if (!model_.whole_folder || model_.index_name.empty()) return;
    std::map<std::pair<std::string, std::uint64_t>, Numbers> sets;
    const auto note = [&](const std::string& name, bool own) {
      const auto numbered = numbered_name(name);
      if (!numbered || numbered->count > static_cast<std::uint64_t>(largest_number)) return;
      const auto key = std::pair(numbered->base, numbered->count);
      if (own || sets.contains(key)) sets[key].insert(static_cast<std::int64_t>(numbered->number));
    };
    for (const ModelShard& shard : model_.shards) note(shard.name, !shard.side);
    for (const LeftOutFile& file : model_.left_out_files) note(file.path.string(), false);
    for (const auto* files : {&model_.shards, &model_.strays}) {
      for (const ModelShard& file : *files) {
        const auto numbered = numbered_name(file.name);
        if (!file.side || !numbered || !sets.contains({numbered->base, numbered->count})) continue;
        sets[{numbered->base, numbered->count}].insert(static_cast<std::int64_t>(numbered->number));
        if (file.header.tensors.empty()) continue;  // nothing in it that an index could name
        add("files-missing", file.name,
            fmt::format("{} is one of the model's {} files by its name, but {} does not name it",
                        in_quotes(file.name), numbered->count, in_quotes(model_.index_name)));
      }
    }
    for (const auto& [set, numbers] : sets) {
      const auto missing = missing_of(numbers, 1, static_cast<std::int64_t>(set.second) + 1);
      if (missing.empty()) continue;
      add("files-missing", set.first,
          fmt::format("of the {} files {}-* {} {} missing: {}", set.second, set.first,
                      missing.size(), is_or_are(missing.size()), list_of(missing)));
    }
  }

  // Whether the layers have enough in common to be of one kind, and not the steps of a sequence.
  static bool is_stack(const std::map<std::int64_t, Names>& layers) {
    std::map<std::string_view, std::size_t> counts;
    std::size_t most = 0;
    for (const auto& [number, modules] : layers) {
      most = std::max(most, modules.size());
      for (const std::string& module : modules) ++counts[module];
    }
    return most >= least_modules && std::any_of(counts.begin(), counts.end(), [&](const auto& one) {
             return one.second * 4 >= layers.size() * 3;
           });
  }

  void find_layers() {
    for (const auto& [stack, layers] : stacks_) {
      if (!is_stack(layers)) continue;
      Numbers present;
      for (const auto& [number, modules] : layers) present.insert(number);
      const bool main = is_main_stack(stack) || names_language_model(stack);
      std::int64_t begin = *present.begin(), end = *present.rbegin() + 1;
      const bool counted = main && (model_.whole_folder || model_.is_gguf) && facts_.layers &&
                           *facts_.layers > 0 && *facts_.layers <= largest_number &&
                           !facts_.uneven_layers;
      if (counted) begin = 0, end = std::max(end, *facts_.layers);
      if (facts_.uneven_layers || end > largest_number) continue;
      const auto missing = missing_of(present, begin, end);
      if (missing.empty()) continue;
      add("layers-missing", stack,
          fmt::format("of {} layers of {} {} {} missing: {}", end - begin, in_quotes(stack),
                      missing.size(), is_or_are(missing.size()), list_of(missing)));
    }
  }

  void find_experts() {
    for (const auto& [name, layer] : experts_) {
      const std::int64_t promised = facts_.experts.value_or(0);
      const std::int64_t count =
          std::max(promised <= largest_number ? promised : 0, layer.experts.rbegin()->first + 1);
      auto missing = count * static_cast<std::int64_t>(layer.parts.size());
      for (const auto& [number, parts] : layer.experts) {
        missing -= static_cast<std::int64_t>(parts.size());
      }
      if (missing == 0) continue;
      add("experts-missing", name,
          fmt::format("of {} experts with {} weights each, {} weight{} missing, first {}", count,
                      layer.parts.size(), missing, missing == 1 ? " is" : "s are",
                      in_quotes(name + "." + first_missing(layer))));
    }
  }

  static std::string first_missing(const ExpertLayer& layer) {
    std::int64_t next = 0;
    for (const auto& [number, parts] : layer.experts) {
      if (number != next) break;
      for (const std::string& part : layer.parts) {
        if (!parts.contains(part)) return fmt::format("{}.{}", number, part);
      }
      ++next;
    }
    return fmt::format("{}.{}", next, *layer.parts.begin());
  }

  // Attention whose keys and values come from elsewhere, or are made in two steps.
  bool has_other_keys(const Names& children) const {
    return facts_.shared_keys ||
           std::any_of(children.begin(), children.end(), [](const std::string& child) {
             return child.find("kv") != child.npos || child.starts_with("k_a_") ||
                    child.starts_with("k_b_");
           });
  }

  static std::vector<std::size_t> members_of(const Kin& kin, const Names& children) {
    std::vector<std::size_t> members;
    for (std::size_t i = 0; i < kin.size(); ++i) {
      if (children.contains(kin[i])) members.push_back(i);
    }
    return members;
  }

  void find_partners() {
    // What the same modules have in any layer.
    std::map<std::pair<std::string, std::size_t>, std::set<std::size_t>> all;
    for (const auto& [parent, children] : children_) {
      for (std::size_t k = 0; k < kins.size(); ++k) {
        const auto members = members_of(kins[k], children);
        if (!members.empty()) {
          all[{without_numbers(parent), k}].insert(members.begin(), members.end());
        }
      }
    }
    for (const auto& [parent, children] : children_) {
      if (experts_.contains(std::string(parent_of(parent)))) continue;  // said of all experts
      Names missing;
      std::string present;
      for (std::size_t k = 0; k < kins.size(); ++k) {
        if (k < attention_kins && has_other_keys(children)) continue;
        const auto members = members_of(kins[k], children);
        if (members.empty()) continue;
        for (const std::size_t member : all.at({without_numbers(parent), k})) {
          if (children.contains(kins[k][member])) continue;
          missing.emplace(kins[k][member]);
          present = kins[k][members.front()];
        }
      }
      if (repeated_layer_of(parent)) find_inseparable(children, missing, present);
      report_partners(parent, missing, present);
    }
    for (const auto& [name, layer] : experts_) {
      Names missing;
      std::string present;
      find_inseparable(layer.parts, missing, present);
      report_partners(name + ".*", missing, present);
    }
  }

  void find_inseparable(const Names& children, Names& missing, std::string& present) const {
    for (const auto& [one, other] : inseparable) {
      const bool attention = other == "k_proj" || other == "v_proj";
      if (other == "up_proj" && facts_.model_type.starts_with("timesfm")) continue;  // it has none
      if (!children.contains(one) || children.contains(other)) continue;
      if (attention && has_other_keys(children)) continue;
      missing.emplace(other);
      present = one;
    }
  }

  void report_partners(const std::string& parent, const Names& missing,
                       const std::string& present) {
    for (const std::string& name : missing) {
      const std::string whole = parent.empty() ? name : parent + "." + name;
      add("partner-missing", whole,
          fmt::format("{} is missing, to which {} belongs", in_quotes(whole),
                      in_quotes(parent.empty() ? present : parent + "." + present)));
    }
  }

  const ModelFolder& model_;
  const ModelFacts& facts_;
  std::map<std::string, std::map<std::int64_t, Names>> stacks_;
  std::map<std::string, Names> children_;  // parts of names, by what comes before them
  std::map<std::string, ExpertLayer> experts_;
  std::vector<Gap> gaps_;
};

}  // namespace

std::vector<Gap> find_gaps(const ModelFolder& model, const ModelFacts& facts) {
  return GapFinder(model, facts).find();
}

std::vector<Gap> find_gaps(const ModelFolder& model) {
  ModelFacts facts;
  if (model.config_text) {
    if (auto read = read_model_facts(*model.config_text)) facts = std::move(read.value());
  }
  return find_gaps(model, facts);
}

std::string sentence_of(const Gap& gap) {
  return (gap.certain ? "not complete: " : "maybe not complete: ") + gap.message;
}

std::string summary_of(const std::vector<Gap>& gaps) {
  if (gaps.empty()) return "";
  const std::string more = gaps.size() > 1 ? fmt::format(" (and {} more)", gaps.size() - 1) : "";
  return gaps.front().message + more;
}

Result<std::vector<std::string>> accept_gaps(const ModelFolder& model, const ModelFacts& facts,
                                             bool allow) {
  const std::vector<Gap> gaps = find_gaps(model, facts);
  std::vector<Gap> certain;
  std::copy_if(gaps.begin(), gaps.end(), std::back_inserter(certain),
               [](const Gap& gap) { return gap.certain; });
  if (!certain.empty() && !allow) {
    return Failure{ErrorCode::bad_input,
                   fmt::format("quantize: '{}' is not complete: {}; download it again "
                               "(`microscale quantize --allow-incomplete` takes what is there)",
                               model.opened.string(), summary_of(certain))};
  }
  std::vector<std::string> sentences;
  for (const Gap& gap : gaps) sentences.push_back(sentence_of(gap));
  return sentences;
}

}  // namespace microscale
