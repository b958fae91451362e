// What becomes of each tensor, judged by its own name, type and shape, and why, in words. What
// depends on other tensors (fused groups, fused experts) is settled by the planner afterwards.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/model_facts.hpp"
#include "checkpoint/pattern.hpp"
#include "checkpoint/safetensors.hpp"
#include "core/result.hpp"
#include "microscale/checkpoint.hpp"

namespace microscale {

struct Decision {
  Treatment treatment = Treatment::copy;
  std::string reason;  // "linear weight", "embedding", "K = 30 is no multiple of 32", ...
  bool linear =
      false;  // a linear layer's weight, whatever becomes of it: loaders must be told if copied
  bool by_user = false;  // --include or --ignore decided, not the tensor's nature

  bool operator==(const Decision&) const = default;
};

/// The module a tensor belongs to: its name without ".weight"; the name itself if it has none.
std::string_view module_of(std::string_view tensor_name);

/// "q_proj" of "model.layers.0.self_attn.q_proj".
std::string_view leaf_of(std::string_view module);

/// Reason for which the weight of this module stays as it is by default; empty for an ordinary
/// layer.
std::string default_ignore_reason(std::string_view module, const ModelFacts& facts);

/// Element type of weights that can be quantized; nothing for the others.
std::optional<DType> dense_type(StoredType type);

class Recipe {
 public:
  /// `include` and `ignore` as in QuantizeModelOptions. A failure names the pattern.
  static Result<Recipe> create(Format format, const std::vector<std::string>& include,
                               const std::vector<std::string>& ignore, ModelFacts facts);

  /// Patterns are held against the tensor's name and its module's. An include pattern without
  /// wildcards also overrules the default ignores: a user who spells out "lm_head" means it.
  Decision decide(const TensorEntry& tensor) const;

  /// A pattern that matches none of the names, if there is one: most likely a typing error. A
  /// pattern that ignores what stays as it is anyway is fine: "lm_head" where the head is tied and
  /// has no tensor.
  struct UnusedPattern {
    const char* option;  // "--include"
    std::string text;
  };
  std::optional<UnusedPattern> unused_pattern(const std::vector<const TensorEntry*>& tensors) const;

  const ModelFacts& facts() const { return facts_; }
  Format format() const { return format_; }

 private:
  Decision judge_shape(const TensorEntry& tensor) const;

  Format format_ = Format::nvfp4;
  std::vector<Pattern> include_, ignore_;
  ModelFacts facts_;
};

/// "K = 30 is no multiple of 32" or empty; K is the length of a row.
std::string block_problem(std::int64_t row_length, Format format);

}  // namespace microscale
