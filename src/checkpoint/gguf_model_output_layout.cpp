// lay_out_gguf_model: where every tensor of a model folder goes in the GGUF file made of it.
#include <fmt/format.h>

#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "checkpoint/classifier.hpp"
#include "checkpoint/containers/gguf_names.hpp"
#include "checkpoint/containers/gguf_pack.hpp"
#include "checkpoint/gguf_layout.hpp"
#include "checkpoint/gguf_model_output.hpp"
#include "checkpoint/json.hpp"
#include "checkpoint/kept_codes.hpp"
#include "checkpoint/tensor_name.hpp"
#include "checkpoint/tile.hpp"

namespace microscale {
namespace {

constexpr std::uint64_t alignment = 32;
constexpr const char* rope_factors = "rope_freqs.weight";

GgufType gguf_type_of_kept(StoredType type) {
  switch (type) {
    case StoredType::f16:
      return GgufType::f16;
    case StoredType::bf16:
      return GgufType::bf16;
    default:
      return GgufType::f32;
  }
}

class Layout {
 public:
  Layout(ModelPlan& plan, const QuantizeModelOptions& options, const GgufModel& model)
      : plan_(plan), options_(options), model_(model) {}

  Status lay_out() {
    plan_.tiles.resize(plan_.tensors.size());
    for (std::size_t i = 0; i < plan_.tensors.size(); ++i) {
      if (Status added = add(i); !added) return added;
    }
    std::vector<PlannedGgufTensor> tensors;
    if (Status planned = plan_tensors(tensors); !planned) return planned;
    auto layout = plan_gguf_file(model_.metadata, alignment, tensors);
    if (!layout) {
      return Failure{layout.failure().code, "quantize: " + layout.failure().message};
    }
    put_in_place(put_gguf_layout(output(), std::move(layout.value())));
    return success();
  }

 private:
  // A tensor of the file: of one layer, or of all experts of one.
  struct Output {
    std::string name;
    GgufType type = GgufType::f32;
    std::vector<std::int64_t> shape;  // of one expert
    std::set<std::int64_t> experts;
  };
  // Which tensor of the file a matrix or a copy is in.
  struct Place {
    std::size_t output = 0;
    std::int64_t expert = 0;
  };

  ShardPlan& output() { return plan_.shards.front(); }

  Status add(std::size_t tensor) {
    const TensorTreatment& treatment = plan_.tensors[tensor];
    const TensorEntry& entry = *treatment.entry;
    switch (treatment.decision.treatment) {
      case Treatment::drop:
        return success();
      case Treatment::copy: {
        const auto place =
            add_output(entry.name, gguf_type_of_kept(copied_type(*treatment.source)), entry.shape);
        if (!place) return place.failure();
        output().copies.push_back({tensor, 0});
        copies_.push_back(place.value());
        summary(tensor).bytes_after += static_cast<std::int64_t>(copied_bytes(*treatment.source));
        return success();
      }
      case Treatment::quantize: {
        MatrixSlice slice;
        slice.module = std::string(module_of(entry.name));
        slice.rows = entry.shape[0];
        slice.cols = slice.row_step = entry.shape[1];
        return add_matrix(tensor, std::move(slice));
      }
      case Treatment::split:
        for (MatrixSlice& slice :
             slice_experts(entry.name, *treatment.verdict.part, *treatment.experts)) {
          if (Status added = add_matrix(tensor, std::move(slice)); !added) return added;
        }
    }
    return success();
  }

  TensorPlan& summary(std::size_t tensor) { return plan_.summary.tensors[tensor]; }

  Status add_matrix(std::size_t tensor, MatrixSlice slice) {
    const TensorTreatment& treatment = plan_.tensors[tensor];
    const GgufType type = *gguf_type_of(treatment.format);
    const auto place = add_output(slice.module + ".weight", type, {slice.rows, slice.cols});
    if (!place) return place.failure();
    places_.push_back(place.value());
    QuantizedMatrix matrix;
    matrix.tensor = tensor;
    matrix.dtype = *dense_type(treatment.entry->type);
    matrix.format = treatment.format;
    matrix.first_tile = plan_.tiles[tensor];
    matrix.first_element = elements_of(tensor);
    plan_.tiles[tensor] += TileGrid(slice.rows, slice.cols).count();
    const std::int64_t elements = slice.rows * slice.cols;
    elements_ += elements;
    summary(tensor).bytes_after += static_cast<std::int64_t>(gguf_block_bytes(type, elements));
    if (options_.keep_codes)
      matrix.kept = kept_blocks(*treatment.source, slice, matrix.format, options_);
    if (matrix.format == WeightFormat::nvfp4) {
      summary(tensor).bytes_after += std::int64_t{sizeof(float)};
      if (!matrix.kept || matrix.kept->cast()) {
        matrix.group = plan_.groups.size();
        plan_.groups.push_back({{0, output().matrices.size()}});
      }
    }
    matrix.at.head_rows = head_rows(slice);
    matrix.slice = std::move(slice);
    output().matrices.push_back(std::move(matrix));
    return success();
  }

  // Of the matrices of this tensor so far.
  std::int64_t elements_of(std::size_t tensor) {
    if (counted_ != tensor) elements_ = 0;
    counted_ = tensor;
    return elements_;
  }

  std::int64_t head_rows(const MatrixSlice& slice) const {
    const GgufHyperparameters& model = model_.parameters;
    const auto place = gguf_place_of(model.architecture, slice.module + ".weight");
    if (place->name.query) return slice.rows / model.heads;
    return place->name.key ? slice.rows / model.kv_heads : 0;
  }

  Result<Place> add_output(const std::string& name, GgufType type,
                           const std::vector<std::int64_t>& shape) {
    const auto place = gguf_place_of(model_.parameters.architecture, name);
    const auto [found, fresh] = index_.try_emplace(place->name.name, outputs_.size());
    if (fresh) outputs_.push_back({place->name.name, type, shape, {}});
    Output& output = outputs_[found->second];
    const bool expected = fresh || place->expert.has_value();
    const bool alike = output.type == type && output.shape == shape;
    if (!expected || !alike || (place->expert && !output.experts.insert(*place->expert).second)) {
      return Failure{
          ErrorCode::bad_input,
          fmt::format("quantize: {} would be {} in the file, which is there already{}",
                      in_quotes(name), in_quotes(output.name),
                      alike ? "" : ", of another shape or type: experts of a layer must be alike")};
    }
    return Place{found->second, place->expert.value_or(0)};
  }

  // The tensors in the order of the file, with the scales of NVFP4 behind their weights.
  Status plan_tensors(std::vector<PlannedGgufTensor>& tensors) const {
    const GgufHyperparameters& model = model_.parameters;
    if (!model.rope_factors.empty()) {
      tensors.push_back(
          {rope_factors, GgufType::f32, {static_cast<std::int64_t>(model.rope_factors.size())}});
    }
    for (const Output& output : outputs_) {
      const auto experts = static_cast<std::int64_t>(output.experts.size());
      if (experts > 0 && (experts != model.experts || *output.experts.rbegin() + 1 != experts)) {
        return Failure{ErrorCode::bad_input,
                       fmt::format("quantize: {} would hold {} experts, and config.json says {}",
                                   in_quotes(output.name), experts, model.experts)};
      }
      std::vector<std::int64_t> shape = output.shape;
      if (experts > 0) shape.insert(shape.begin(), experts);
      tensors.push_back({output.name, output.type, std::move(shape)});
      if (output.type == GgufType::nvfp4)
        tensors.push_back(
            {gguf_scale_name(output.name), GgufType::f32, {std::max<std::int64_t>(experts, 1)}});
    }
    return success();
  }

  void put_in_place(const GgufPlaces& at) {
    const auto expert_begin = [&](const Place& place, std::uint64_t bytes) {
      return at.at(outputs_[place.output].name) + static_cast<std::uint64_t>(place.expert) * bytes;
    };
    for (std::size_t i = 0; i < copies_.size(); ++i) {
      CopiedTensor& copy = output().copies[i];
      copy.at = expert_begin(copies_[i], copied_bytes(*plan_.tensors[copy.tensor].source));
    }
    for (std::size_t i = 0; i < places_.size(); ++i) {
      QuantizedMatrix& matrix = output().matrices[i];
      const Place& place = places_[i];
      const std::int64_t elements = matrix.slice.rows * matrix.slice.cols;
      matrix.at.codes =
          expert_begin(place, gguf_block_bytes(*gguf_type_of(matrix.format), elements));
      if (matrix.format != WeightFormat::nvfp4) continue;
      matrix.at.global_scale = at.at(gguf_scale_name(outputs_[place.output].name)) +
                               static_cast<std::uint64_t>(place.expert) * sizeof(float);
    }
    const std::vector<float>& factors = model_.parameters.rope_factors;
    if (factors.empty()) return;
    std::string bytes(factors.size() * sizeof(float), '\0');
    std::memcpy(bytes.data(), factors.data(), bytes.size());
    output().constants.push_back({at.at(rope_factors), std::move(bytes)});
  }

  ModelPlan& plan_;
  const QuantizeModelOptions& options_;
  const GgufModel& model_;
  std::vector<Output> outputs_;  // in the order of the file
  std::map<std::string, std::size_t, std::less<>> index_;
  std::vector<Place> copies_, places_;  // parallel to the shard's copies and matrices
  std::optional<std::size_t> counted_;  // the tensor that elements_ counts
  std::int64_t elements_ = 0;
};

}  // namespace

Status lay_out_gguf_model(ModelPlan& plan, const QuantizeModelOptions& options,
                          const GgufModel& model) {
  return Layout(plan, options, model).lay_out();
}

}  // namespace microscale
