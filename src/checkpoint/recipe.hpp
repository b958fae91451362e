// What becomes of each tensor: the classifier's verdict, the format's block, and the user's
// patterns. What depends on other tensors (fused groups, fused experts) is settled by the planner
// afterwards.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "checkpoint/classifier.hpp"
#include "checkpoint/pattern.hpp"
#include "checkpoint/safetensors.hpp"
#include "core/result.hpp"
#include "checkpoint/weight_format.hpp"
#include "microscale/checkpoint.hpp"

namespace microscale {

struct Decision {
  Treatment treatment = Treatment::copy;
  std::string reason;  // "linear weight", "embedding", "K = 30 is no multiple of 32", ...
  bool linear =
      false;  // a linear layer's weight, whatever becomes of it: loaders must be told if copied
  bool by_user = false;  // --include or --ignore decided, not the tensor's nature
  Kept kept = Kept::no;  // `no` for what is quantized or split

  bool operator==(const Decision&) const = default;
};

class Recipe {
 public:
  /// `include` and `ignore` as in QuantizeModelOptions; `choice` (null: none) settles the formats
  /// of layers that no --use names. A failure names the pattern.
  static Result<Recipe> create(WeightFormat format, const std::vector<std::string>& include,
                               const std::vector<std::string>& ignore,
                               const std::vector<UseFormat>& use = {},
                               Container container = Container::compressed_tensors,
                               const FormatChoice* choice = nullptr);

  /// Patterns are held against the tensor's name and its module's. An include pattern without
  /// wildcards also overrules what is kept by default: a user who spells out "lm_head" means it.
  Decision decide(const TensorEntry& tensor, const Verdict& verdict) const;

  /// Whether an --ignore pattern without wildcards names the tensor or its module.
  bool ignores_by_name(const TensorEntry& tensor, std::string_view module) const;

  /// A pattern that matches none of the names, if there is one: most likely a typing error. A
  /// pattern that ignores what stays as it is anyway is fine: "lm_head" where the head is tied and
  /// has no tensor.
  struct UnusedPattern {
    const char* option;  // "--include"
    std::string text;
  };
  /// `beside`: tensors of files beside the model, which --ignore may name.
  std::optional<UnusedPattern> unused_pattern(
      const std::vector<const TensorEntry*>& tensors, const Classifier& classifier,
      const std::vector<const TensorEntry*>& beside = {}) const;

  /// The same where no pattern has a meaning beyond the tensors: any that matches none of them.
  std::optional<UnusedPattern> unmatched_pattern(
      const std::vector<const TensorEntry*>& tensors) const;

  /// What the tensor's weight becomes, if it is quantized: by the first --use that matches, else by
  /// the choice.
  WeightFormat format_of(const TensorEntry& tensor) const;

  /// Whether a --use names it.
  bool uses(const TensorEntry& tensor) const { return use_of(tensor) != nullptr; }

  /// A --use by which no tensor of these gets its format.
  std::optional<std::string> idle_use(const std::vector<const TensorEntry*>& quantized) const;

 private:
  struct Use {
    Pattern pattern;
    WeightFormat format;
  };
  const Use* use_of(const TensorEntry& tensor) const;
  // What the choice says of a tensor that no --use names; null: nothing.
  const MenuFormat* chosen(const TensorEntry& tensor) const;

  WeightFormat format_ = WeightFormat::nvfp4;
  Container container_ = Container::compressed_tensors;
  std::vector<Pattern> include_, ignore_;
  std::vector<Use> use_;
  std::unordered_map<std::string, MenuFormat> choice_;  // by group
};

}  // namespace microscale
