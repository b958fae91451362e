#include "checkpoint/model_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "checkpoint/coded_input.hpp"
#include "checkpoint/config_contradictions.hpp"
#include "checkpoint/comfyui_output.hpp"
#include "checkpoint/completeness.hpp"
#include "checkpoint/containers/container_writer.hpp"
#include "checkpoint/conversion_report.hpp"
#include "checkpoint/dense_output.hpp"
#include "checkpoint/file_names.hpp"
#include "checkpoint/finished_run.hpp"
#include "checkpoint/fused_groups.hpp"
#include "checkpoint/gguf_model_output.hpp"
#include "checkpoint/gguf_output.hpp"
#include "checkpoint/gpt_oss_output.hpp"
#include "checkpoint/idle_options.hpp"
#include "checkpoint/include_check.hpp"
#include "checkpoint/input_scales.hpp"
#include "checkpoint/kept_codes.hpp"
#include "checkpoint/kept_kv_cache.hpp"
#include "checkpoint/joined_experts.hpp"
#include "checkpoint/json.hpp"
#include "checkpoint/merged_weight.hpp"
#include "checkpoint/model_place.hpp"
#include "checkpoint/layer_groups.hpp"
#include "checkpoint/numerics_check.hpp"
#include "checkpoint/output_folder.hpp"
#include "checkpoint/plan_notices.hpp"
#include "checkpoint/model_plan_totals.hpp"
#include "checkpoint/shard_index.hpp"
#include "checkpoint/stray_weights.hpp"
#include "checkpoint/tensor_name.hpp"
#include "checkpoint/tile.hpp"
#include "checkpoint/verify_plan.hpp"
#include "formats/compat.hpp"

namespace microscale {
namespace {

namespace fs = std::filesystem;

// A stored matrix as a slice of itself.
MatrixSlice whole_matrix(const TensorEntry& entry) {
  MatrixSlice slice;
  slice.module = std::string(module_of(entry.name));
  slice.rows = entry.shape[0];
  slice.cols = slice.row_step = entry.shape[1];
  return slice;
}

// Fills one ShardPlan, tensor by tensor: first what there is, then (once the layout is known)
// where.
class ShardPlanner {
 public:
  ShardPlanner(ModelPlan& plan, std::size_t shard, std::map<std::string, std::size_t>& group_ids,
               const QuantizeModelOptions& options)
      : plan_(plan), shard_(shard), group_ids_(group_ids), options_(options) {}

  void add(std::size_t tensor) {
    const TensorTreatment& treatment = plan_.tensors[tensor];
    TensorPlan& summary = plan_.summary.tensors[tensor];
    const TensorEntry& entry = *treatment.entry;
    first_output_ = outputs_.size();
    elements_ = 0;
    switch (treatment.decision.treatment) {
      case Treatment::quantize:
        if (is_stack(tensor)) {
          for (MatrixSlice& slice : stacked_slices(entry)) add_matrix(tensor, std::move(slice));
        } else {
          add_matrix(tensor, whole_matrix(entry));
        }
        break;
      case Treatment::copy:
        output().copies.push_back({tensor, 0});
        outputs_.push_back({entry.name, copied_type(*treatment.source), entry.shape});
        break;
      case Treatment::drop:
        break;
      case Treatment::split:
        for (MatrixSlice& slice :
             slice_experts(entry.name, *treatment.verdict.part, *treatment.experts)) {
          if (entry.shape.size() == 3) {
            add_matrix(tensor, std::move(slice));
          } else {
            outputs_.push_back({slice.module + ".bias", entry.type, {slice.rows}});
            output().slices.push_back({std::move(slice), tensor, 0});
          }
        }
    }
    for (std::size_t i = first_output_; i < outputs_.size(); ++i) {
      const auto bytes = stored_bytes(outputs_[i].type, outputs_[i].shape);
      if (bytes) summary.bytes_after += static_cast<std::int64_t>(bytes.value());
    }
  }

  Status finish() {
    auto layout = plan_safetensors(std::move(outputs_), metadata());
    if (!layout) return layout.failure();
    output().layout = std::move(layout.value());
    std::unordered_map<std::string_view, std::uint64_t> at;
    for (const TensorEntry& entry : output().layout.tensors) at.emplace(entry.name, entry.begin);
    for (QuantizedMatrix& matrix : output().matrices) {
      const LayerTensors layer = layer_of(matrix.tensor, matrix.slice);
      matrix.at.codes = at.at(layer.codes.name);
      if (!layer.scales.name.empty()) matrix.at.scales = at.at(layer.scales.name);
      if (is_stack(matrix.tensor)) {
        const FormatInfo& facts = info(*blocks_of(matrix.format));
        matrix.at.codes += static_cast<std::uint64_t>(code_bytes(facts, matrix.first_element));
        matrix.at.scales += static_cast<std::uint64_t>(matrix.first_element / facts.block);
      }
      if (!layer.global_scale.name.empty()) matrix.at.global_scale = at.at(layer.global_scale.name);
      if (!layer.input_scale.name.empty()) matrix.at.input_scale = at.at(layer.input_scale.name);
      for (const NamedBytes& constant : layer.constants) {
        output().constants.push_back({at.at(constant.tensor.name), constant.bytes});
      }
    }
    for (CopiedSlice& slice : output().slices) slice.at = at.at(slice.slice.module + ".bias");
    for (CopiedTensor& copy : output().copies)
      copy.at = at.at(plan_.tensors[copy.tensor].entry->name);
    return success();
  }

 private:
  ShardPlan& output() { return plan_.shards[shard_]; }

  void add_matrix(std::size_t tensor, MatrixSlice slice) {
    const WeightFormat format = plan_.tensors[tensor].format;
    LayerTensors layer = layer_of(tensor, slice);
    if (!is_stack(tensor) || elements_ == 0) {
      outputs_.push_back(layer.codes);
      if (!layer.scales.name.empty()) outputs_.push_back(layer.scales);
    }
    QuantizedMatrix matrix;
    matrix.tensor = tensor;
    matrix.format = format;
    matrix.fp32_scales = layer.scales.type == StoredType::f32;
    matrix.dtype = *dense_type(plan_.tensors[tensor].entry->type);
    if (options_.keep_codes)
      matrix.kept = kept_blocks(*plan_.tensors[tensor].source, slice, format, options_);
    if (!layer.global_scale.name.empty()) {
      outputs_.push_back(std::move(layer.global_scale));
      if (!matrix.kept || matrix.kept->cast()) {
        matrix.group = group_of(slice.module);
        plan_.groups[matrix.group].push_back({shard_, output().matrices.size()});
      }
    }
    if (!layer.input_scale.name.empty()) outputs_.push_back(std::move(layer.input_scale));
    for (NamedBytes& constant : layer.constants) outputs_.push_back(std::move(constant.tensor));
    matrix.first_tile = plan_.tiles[tensor];
    matrix.first_element = elements_;
    elements_ += slice.rows * slice.cols;
    plan_.tiles[tensor] += TileGrid(slice.rows, slice.cols).count();
    matrix.slice = std::move(slice);
    output().matrices.push_back(std::move(matrix));
  }

  // All experts of a layer, which stay one tensor.
  bool is_stack(std::size_t tensor) const {
    const TensorTreatment& treatment = plan_.tensors[tensor];
    return treatment.decision.treatment == Treatment::quantize &&
           treatment.entry->shape.size() == 3;
  }

  LayerTensors layer_of(std::size_t tensor, const MatrixSlice& slice) const {
    const ContainerWriter& writer = writer_of(options_.container);
    const LayerScheme scheme = scheme_of(options_, plan_.tensors[tensor].format);
    if (is_stack(tensor)) {
      const std::int64_t experts = plan_.tensors[tensor].entry->shape[0];
      return writer.experts(scheme, slice.module, experts, slice.rows, slice.cols);
    }
    return writer.layer(scheme, slice.module, slice.rows, slice.cols);
  }

  // Layers that are fused with no other are a group of one, under their own name.
  std::size_t group_of(const std::string& module) {
    const auto [it, added] =
        group_ids_.try_emplace(fused_group_of(module).value_or(module), plan_.groups.size());
    if (added) plan_.groups.emplace_back();
    return it->second;
  }

  // The input's, with the entry that readers of Hugging Face models insist on. They take no other
  // values of it than those of four frameworks.
  SafetensorsMetadata metadata() {
    const ModelShard& shard = plan_.model.shards[shard_];
    SafetensorsMetadata metadata = shard.header.metadata;
    std::erase_if(metadata, [](const auto& entry) { return entry.first == comfyui_metadata; });
    if (!metadata.empty() && has_known_format(metadata)) return metadata;
    const auto format = std::find_if(metadata.begin(), metadata.end(),
                                     [](const auto& entry) { return entry.first == "format"; });
    if (format != metadata.end()) {
      plan_.summary.notices.push_back(
          fmt::format("{}: the metadata's format {} becomes 'pt', as transformers reads no other",
                      shard.name, in_quotes(format->second)));
      metadata.erase(format);
    }
    metadata.insert(metadata.end(), pytorch_metadata.begin(), pytorch_metadata.end());
    return metadata;
  }

  ModelPlan& plan_;
  std::size_t shard_;
  std::map<std::string, std::size_t>& group_ids_;
  const QuantizeModelOptions& options_;
  std::vector<PlannedTensor> outputs_;
  std::size_t first_output_ = 0;
  std::int64_t elements_ = 0;  // of the tensor's matrices so far
};

void start_summary(ModelPlan& plan) {
  for (const TensorTreatment& treatment : plan.tensors) {
    const TensorEntry& entry = *treatment.entry;
    TensorPlan tensor;
    tensor.name = entry.name;
    const StoredWeight* coded = treatment.source->weight;
    tensor.dtype = coded ? coded->facts().description : to_string(entry.type);
    tensor.shape = entry.shape;
    tensor.treatment = treatment.decision.treatment;
    tensor.reason = treatment.decision.reason;
    const Treatment what = treatment.decision.treatment;
    const bool weight = what == Treatment::quantize ||
                        (what == Treatment::split && treatment.entry->shape.size() == 3);
    if (weight) tensor.format = to_string(treatment.format);
    tensor.group = treatment.group;
    tensor.file = plan.shards[treatment.shard].name;
    tensor.bytes_before = static_cast<std::int64_t>(treatment.source->stored_bytes());
    plan.summary.tensors.push_back(std::move(tensor));
  }
  for (const fs::path& file : plan.model.other_files) {
    plan.summary.copied_files.push_back(file.string());
  }
  for (const LeftOutFile& file : plan.model.left_out_files) {
    plan.summary.dropped_files.push_back(file.path.string());
    plan.summary.dropped_reasons.push_back(file.reason);
  }
}

std::string make_index(const ModelPlan& plan) {
  ShardIndex index;
  std::uint64_t total = 0;
  for (std::size_t shard = 0; shard < plan.shards.size(); ++shard) {
    for (const TensorEntry& entry : plan.shards[shard].layout.tensors) {
      index.weight_map.emplace(entry.name, plan.shards[shard].name);
      total += entry.bytes();
    }
  }
  index.total_size = total;
  return write_shard_index(index);
}

Status plan_shards(ModelPlan& plan, const QuantizeModelOptions& options) {
  plan.tiles.resize(plan.tensors.size());
  std::map<std::string, std::size_t> group_ids;
  std::size_t tensor = 0;
  for (std::size_t shard = 0; shard < plan.shards.size(); ++shard) {
    ShardPlanner planner(plan, shard, group_ids, options);
    for (; tensor < plan.tensors.size() && plan.tensors[tensor].shard == shard; ++tensor) {
      planner.add(tensor);
    }
    if (Status finished = planner.finish(); !finished) return finished;
  }
  return success();
}

}  // namespace

std::vector<WeightFormat> formats_in(const ModelPlan& plan) {
  std::set<WeightFormat> found;
  for (const ShardPlan& shard : plan.shards) {
    for (const QuantizedMatrix& matrix : shard.matrices) found.insert(matrix.format);
  }
  std::vector<WeightFormat> formats(found.begin(), found.end());
  const auto own = weight_format_of(plan.format);
  std::stable_partition(formats.begin(), formats.end(),
                        [&](WeightFormat format) { return format == own; });
  return formats;
}

Result<ModelPlan> make_model_plan(const QuantizeModelOptions& options) {
  if (Status container = check_container(options); !container) return container.failure();
  if (Status container = writer_of(options.container).check(options); !container) {
    return container.failure();
  }
  if (Status numerics = check_numerics(options); !numerics) return numerics.failure();
  if (const auto place = find_model(options.input); options.container == Container::gguf && place) {
    if (place.value().is_gguf) return plan_gguf_output(options);
  }
  auto model = open_model_folder(options.input);
  if (!model) return model.failure();
  if (const auto file = unfinished_run(model.value())) {
    return Failure{
        ErrorCode::bad_input,
        fmt::format(
            "quantize: '{}' is the unfinished output of another run ('{}' is there); finish that "
            "run first",
            options.input.string(), *file)};
  }
  if (Status named = check_file_names(model.value(), "quantize"); !named) return named.failure();
  if (Status whole = refuse_adapter(model.value()); !whole) return whole.failure();
  auto folder = sort_quantized_folder(std::move(model.value()), false, false);
  if (!folder) return folder.failure();
  if (options.container == Container::gpt_oss) {
    if (Status joined = join_experts(folder.value(), "quantize"); !joined) return joined.failure();
  }
  const std::vector<std::string> contradictions = config_contradictions(folder.value());
  ModelPlan plan;
  plan.format = options.format;
  plan.view = dense_view_of(folder.value());
  plan.model = std::move(folder.value().model);
  if (plan.view.computed()) leave_out_descriptions(plan.model);
  Status other = check_coded_input(plan.model, plan.view, options);
  if (!other) return other.failure();
  auto adapters = open_adapters(options.lora);
  if (!adapters) return adapters.failure();
  plan.adapters = std::move(adapters.value());
  auto merged = merge_adapters(plan.adapters, plan.model, plan.view);
  if (!merged) return merged.failure();

  const auto recipe =
      Recipe::create(*weight_format_of(options.format), options.include, options.ignore,
                     options.use, options.container, options.choice ? &*options.choice : nullptr);
  if (!recipe) return recipe.failure();
  const auto classifier = classify_model(plan.model, plan.view);
  if (!classifier) return classifier.failure();
  auto treatments = decide_treatments(plan.model, plan.view, classifier.value(), recipe.value(),
                                      options.experts, options.keep_codes ? &options : nullptr);
  if (!treatments) return treatments.failure();
  plan.tensors = std::move(treatments.value());
  if (Status effect = check_includes(options.include, plan.tensors); !effect) {
    return effect.failure();
  }
  plan.summary.notices =
      options.keep_codes ? plan.model.sentences() : notices_of(plan.model, plan.view);
  for (const auto& told : {contradictions, merged.value()}) {
    plan.summary.notices.insert(plan.summary.notices.end(), told.begin(), told.end());
  }
  Status fits = plan_gpt_oss_experts(plan, options, classifier.value().facts());
  if (!fits) return fits.failure();
  std::optional<GgufModel> gguf;
  if (options.container == Container::gguf) {
    auto settled = settle_gguf_model(plan, options);
    if (!settled) return settled.failure();
    gguf = std::move(settled.value());
  } else if (options.container == Container::comfyui) {
    plan_comfyui_file(plan, options);
  } else {
    for (const ModelShard& shard : plan.model.shards) plan.shards.emplace_back().name = shard.name;
  }
  plan.summary.choice = options.choice;
  start_summary(plan);
  tell_oddities(plan, classifier.value().facts());
  auto gaps = accept_gaps(plan.model, classifier.value().facts(), options.allow_incomplete);
  if (!gaps) return gaps.failure();
  plan.summary.notices.insert(plan.summary.notices.end(), gaps.value().begin(), gaps.value().end());
  if (options.allow_incomplete && gaps.value().empty()) {
    plan.summary.notices.push_back("--allow-incomplete was not needed: nothing is missing");
  }
  Status planned = gguf ? lay_out_gguf_model(plan, options, *gguf) : plan_shards(plan, options);
  if (!planned) return planned.failure();
  if (options.keep_codes) {
    if (Status kept = plan_kept_codes(plan, options); !kept) return kept.failure();
  }
  if (!options.input_scales.empty()) {
    Status scaled = plan_input_scales(plan, options.input_scales);
    if (!scaled) return scaled.failure();
  }
  tell_unscaled_inputs(plan);
  if (Status effect = check_idle_options(plan, options); !effect) return effect.failure();
  auto descriptions = describe_layers(plan, options, classifier.value());
  if (!descriptions) return descriptions.failure();
  plan.config_text = std::move(descriptions.value().config);
  plan.other_texts = std::move(descriptions.value().others);
  const bool described = options.container == Container::compressed_tensors ||
                         options.container == Container::modelopt;
  if (!plan.one_file && (options.keep_codes || described)) {
    const std::size_t told = plan.summary.notices.size();
    if (Status kept = keep_kv_cache_scheme(plan, options.container); !kept) return kept.failure();
    if (plan.summary.notices.size() == told) tell_undescribed_cache(plan);
  }
  if (!plan.model.index_name.empty()) plan.index_text = make_index(plan);
  if (Status checked = check_plan(plan); !checked) return checked.failure();
  if (Status totals = add_totals(plan, options); !totals) return totals.failure();
  return plan;
}

}  // namespace microscale
