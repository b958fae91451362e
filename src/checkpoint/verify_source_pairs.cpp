#include "checkpoint/verify_source_pairs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "checkpoint/classifier.hpp"
#include "checkpoint/fused_experts.hpp"
#include "checkpoint/recipe.hpp"
#include "checkpoint/tensor_name.hpp"
#include "checkpoint/treatments.hpp"
#include "report/units.hpp"

namespace microscale {
namespace {

class Pairing {
 public:
  Pairing(const QuantizedFolder& folder, const QuantizedFolder& source, const DenseView& view,
          Findings& findings)
      : folder_(folder),
        view_(view),
        classifier_(take(classify_model(source.model, view))),
        order_(classifier_.expert_order().value_or(ExpertOrder::halves)),
        findings_(findings) {
    result_.stored = split_like(folder, source, classifier_.facts(), order_);
    find_matrices(source.model);
  }

  SourcePairs run() {
    for (const LogicalTensor& tensor : result_.stored.tensors) {
      if (tensor.coded()) {
        pair_coded(tensor);
      } else {
        pair_dense(tensor);
      }
    }
    if (folder_.model.whole_folder) report_lost();
    return std::move(result_);
  }

 private:
  void report(std::string_view rule, const LogicalTensor& tensor, const std::string& text) {
    findings_.push_back(make_finding(Severity::error, rule, folder_.file_of(tensor.main_part()),
                                     tensor.name, text));
  }

  // The matrices of the original that a converter would have made modules of, by module.
  void find_matrices(const ModelFolder& model) {
    const Recipe recipe = take(Recipe::create(WeightFormat::nvfp4, {}, {}));
    for (const TensorTreatment& treatment :
         take(decide_treatments(model, view_, classifier_, recipe, order_))) {
      const TensorEntry& entry = *treatment.entry;
      const DenseTensor* tensor = treatment.source;
      const Treatment what = treatment.decision.treatment;
      // Biases of fused experts are split up, and what a calibration left behind goes.
      const bool bias = what == Treatment::split && entry.shape.size() != 3;
      if (bias || what == Treatment::drop) used_.insert(tensor);
      if (what == Treatment::split && entry.shape.size() == 3) {
        for (MatrixSlice& slice :
             slice_experts(entry.name, *treatment.verdict.part, *treatment.experts)) {
          const std::string module = slice.module;
          matrices_[module] = {nullptr, tensor, std::move(slice)};
        }
      } else if (entry.shape.size() == 2 && entry.name.ends_with(".weight")) {
        const std::string module(module_of(entry.name));
        matrices_[module] = {nullptr, tensor, whole(entry)};
      }
    }
  }

  // All of a tensor, as lines of its last dimension.
  static MatrixSlice whole(const TensorEntry& entry) {
    MatrixSlice slice;
    slice.module = module_of(entry.name);
    slice.cols = slice.row_step = entry.shape.empty() ? 1 : entry.shape.back();
    slice.rows = 1;
    for (std::size_t i = 0; i + 1 < entry.shape.size(); ++i) slice.rows *= entry.shape[i];
    return slice;
  }

  // By the module, else (fused experts in a container) by the tensor's own name.
  std::optional<SourcePair> original_of(const LogicalTensor& tensor) const {
    const auto found = matrices_.find(std::string(module_of(tensor.name)));
    if (found != matrices_.end() && tensor.shape.size() == 2) return found->second;
    const DenseTensor* original = view_.find(tensor.name);
    if (!original) return std::nullopt;
    return SourcePair{nullptr, original, whole(original->entry)};
  }

  static std::vector<std::int64_t> shape_of(const SourcePair& pair, std::size_t rank) {
    if (rank == 2) return {pair.slice.rows, pair.slice.cols};
    return pair.original->entry.shape;
  }

  void pair_coded(const LogicalTensor& tensor) {
    std::optional<SourcePair> pair = original_of(tensor);
    if (!pair) {
      report("source-missing", tensor, "the original has no such weight");
      return;
    }
    used_.insert(pair->original);
    pair->stored = &tensor;
    const auto shape = shape_of(*pair, tensor.shape.size());
    if (shape != tensor.shape) {
      report("source-shape", tensor,
             fmt::format("it is {}, but {} in the original", format_shape(tensor.shape),
                         format_shape(shape)));
    } else if (!dense_type(pair->original->entry.type)) {
      report("source-missing", tensor,
             fmt::format("in the original it is {}, no full precision",
                         to_string(pair->original->entry.type)));
    } else {
      result_.pairs.push_back(std::move(*pair));
    }
  }

  // A matrix of a folder without any codes may be what was decoded again.
  void pair_dense(const LogicalTensor& tensor) {
    const bool has_floats = dense_type(tensor.stored->entry->type).has_value();
    if (tensor.slice || (has_floats && !folder_.quantized() && tensor.shape.size() >= 2)) {
      std::optional<SourcePair> pair = original_of(tensor);
      if (!pair) return;
      used_.insert(pair->original);
      if (has_floats && dense_type(pair->original->entry.type) &&
          shape_of(*pair, tensor.shape.size()) == tensor.shape) {
        pair->stored = &tensor;
        result_.pairs.push_back(std::move(*pair));
        return;
      }
    }
    const DenseTensor* original = view_.find(tensor.name);
    if (!original) return;
    used_.insert(original);
    result_.pairs.push_back({&tensor, original, {}, false});
  }

  // Codes or scales that make no weight, of which the rules on them say more.
  bool has_parts_of(std::string_view name) const {
    const std::string module(module_of(name));
    return std::any_of(folder_.unusable.begin(), folder_.unusable.end(),
                       [&](const Finding& finding) {
                         return finding.tensor == module ||
                                std::string_view(finding.tensor).starts_with(module + ".");
                       });
  }

  void report_lost() {
    for (const DenseTensor& tensor : view_.tensors) {
      if (used_.contains(&tensor) || has_parts_of(tensor.entry.name)) continue;
      findings_.push_back(make_finding(Severity::error, "source-lost", "", tensor.entry.name,
                                       "it is in the original and not in this folder; convert the "
                                       "model again"));
    }
  }

  const QuantizedFolder& folder_;
  const DenseView& view_;
  const Classifier classifier_;
  const ExpertOrder order_;
  Findings& findings_;
  std::map<std::string, SourcePair> matrices_;
  std::set<const DenseTensor*> used_;  // of the original: something was made of them
  SourcePairs result_;
};

}  // namespace

SourcePairs pair_with_source(const QuantizedFolder& folder, const QuantizedFolder& source,
                             const DenseView& view, Findings& findings) {
  return Pairing(folder, source, view, findings).run();
}

}  // namespace microscale
