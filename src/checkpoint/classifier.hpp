// What every tensor of a model is: a weight to quantize, one that is kept, codes or scales that
// another tool wrote, or no weight at all; each with its reason. The one place where this is
// decided: quantize, verify, inspect, compare and dequantize ask here.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/dense_view.hpp"
#include "checkpoint/fused_experts.hpp"
#include "checkpoint/kept_layers.hpp"
#include "checkpoint/model_facts.hpp"
#include "checkpoint/model_folder.hpp"
#include "checkpoint/quantizer_marks.hpp"

namespace microscale {

enum class TensorKind : std::uint8_t {
  linear,     // the weight [N, K] of a linear layer
  experts,    // the weights of many, one after the other: "experts.gate_up_proj" [E, 2 I, K]
  quantized,  // codes or scales of a weight that is quantized already
  leftover,   // of a calibration: no part of a dense model
  kv_scale,   // a scale of the key-value cache
  other,      // norms, biases, buffers, convolutions: no linear layer
};

struct Verdict {
  TensorKind kind = TensorKind::other;
  Kept kept = Kept::no;  // why it is not quantized; `no` for what can be
  std::string reason;    // the same in words: "linear weight", "output head", "a vector, no matrix"
  /// Loaders of a quantized model build a linear layer from it and look for codes, unless its
  /// module is on the ignore list.
  bool linear = false;
  std::optional<ExpertPart> part;      // of fused experts, weights and biases alike
  std::optional<QuantizingTool> tool;  // of `quantized`
  std::string module;                  // that it belongs to: "model.layers.0.mlp.up_proj"
};

/// Knows the whole model, since a verdict may hang on other tensors. The format does not matter
/// here: whether K fits a block is the recipe's to say.
class Classifier {
 public:
  Classifier() = default;
  /// The entries must outlive this. `beside`: those of files beside the model, which say nothing of
  /// the model itself, but show what belongs to them.
  Classifier(const std::vector<const TensorEntry*>& entries, ModelFacts facts,
             const std::vector<const TensorEntry*>& beside = {});

  /// Of a tensor of the model; also of one that it does not have, judged as if it were there: ask
  /// for "P.weight" BF16 [N, K] to learn what a quantized module P was.
  Verdict judge(const TensorEntry& tensor) const;

  /// Why a layer is kept for what it is to the model, by the name and the shape of its weight
  /// (empty: not known); `no` for an ordinary one.
  Kept nature_of(std::string_view module, std::span<const std::int64_t> shape) const;

  /// Gate and up of fused experts; nothing if neither config.json nor the tensors tell.
  std::optional<ExpertOrder> expert_order() const { return order_; }

  const ModelFacts& facts() const { return facts_; }
  const LayerRules& rules() const { return rules_; }

 private:
  const TensorEntry* find(std::string_view name) const;
  Verdict judge_dense(const TensorEntry& tensor) const;
  void note_experts(const TensorEntry& tensor);
  bool scores_experts(std::string_view module, std::span<const std::int64_t> shape) const;

  // Experts of a layer: how many, and how wide what they read may be.
  struct Experts {
    std::int64_t count = 0;
    std::set<std::int64_t> widths;
  };

  std::vector<const TensorEntry*> entries_;  // by name
  ModelFacts facts_;
  LayerRules rules_;
  std::optional<ExpertOrder> order_;
  std::map<std::string, Experts, std::less<>> experts_;  // by the module that holds them
};

/// The tensors of an open model, with what its config.json says (facts of nothing, if it has none).
Result<Classifier> classify_model(const ModelFolder& model);

/// The same of the tensors of the dense model that it stands for.
Result<Classifier> classify_model(const ModelFolder& model, const DenseView& view);

/// Element type of weights that can be quantized; nothing for the others.
std::optional<DType> dense_type(StoredType type);

}  // namespace microscale
