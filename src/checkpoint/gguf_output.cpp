#include "checkpoint/gguf_output.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "checkpoint/coded_input.hpp"
#include "checkpoint/containers/gguf_file.hpp"
#include "checkpoint/containers/gguf_layers.hpp"
#include "checkpoint/containers/gguf_model.hpp"
#include "checkpoint/containers/gguf_pack.hpp"
#include "checkpoint/containers/gguf_weight.hpp"
#include "checkpoint/gguf_layout.hpp"
#include "checkpoint/idle_options.hpp"
#include "checkpoint/include_check.hpp"
#include "checkpoint/json.hpp"
#include "checkpoint/recipe.hpp"
#include "checkpoint/tensor_name.hpp"

namespace microscale {
namespace {

namespace fs = std::filesystem;

class GgufPlanner {
 public:
  GgufPlanner(GgufFile file, const QuantizeModelOptions& options, Recipe recipe)
      : file_(std::move(file)), options_(options), recipe_(std::move(recipe)) {}

  Result<ModelPlan> plan() {
    plan_.format = options_.format;
    plan_.one_file = true;
    if (Status read = read_scales(); !read) return read.failure();
    open_model();
    for (const GgufPart& part : file_.parts) {
      for (const GgufTensor& tensor : part.header.tensors) {
        add(*file_.find(tensor.name));
      }
    }
    settle_scales();
    if (Status used = check_patterns(); !used) return used.failure();
    std::vector<const GgufTensor*> tensors;
    for (const Item& item : items_) tensors.push_back(&item.entry());
    if (Status laid_out = lay_out_gguf(plan_, file_, tensors, options_); !laid_out) {
      return laid_out.failure();
    }
    add_notices();
    if (Status effect = check_idle_options(plan_, options_); !effect) return effect.failure();
    return std::move(plan_);
  }

 private:
  // A tensor of the input, and what becomes of it.
  struct Item {
    const GgufFile::Tensor* tensor = nullptr;
    GgufLayer layer;
    TensorEntry flat;  // as the weight of one layer: all experts below each other
    const GgufTensor& entry() const { return *tensor->entry; }
  };

  // That the file's values are multiplied by, by the name of the weight.
  Status read_scales() {
    for (const GgufFile::Tensor& tensor : file_.tensors) {
      const GgufTensor& entry = *tensor.entry;
      const GgufFile::Tensor* scale = file_.find(gguf_scale_name(entry.name));
      if (!gguf_layer_of(entry.name).linear || !scale) continue;
      auto scales = read_gguf_scales(file_, *scale, gguf_matrices(entry.shape));
      if (!scales) return scales.failure();
      scales_.emplace(entry.name, std::move(scales.value()));
    }
    return success();
  }

  // The files as the converter knows them: names and bytes.
  void open_model() {
    ModelFolder& model = plan_.model;
    model.opened = options_.input;
    model.is_gguf = true;
    model.root = options_.input.has_parent_path() ? options_.input.parent_path() : fs::path(".");
    for (GgufPart& part : file_.parts) {
      SafetensorsHeader header;
      header.data_start = part.header.data_start;
      for (const GgufTensor& tensor : part.header.tensors) header.tensors.push_back(raw(tensor));
      model.shards.push_back(
          {part.file.path().filename().string(), std::move(part.file), std::move(header)});
    }
    for (std::size_t part = 0; part < model.shards.size(); ++part) {
      for (const TensorEntry& entry : model.shards[part].header.tensors) {
        model.tensors.push_back({part, &entry});
      }
    }
    std::sort(model.tensors.begin(), model.tensors.end(),
              [](const ModelTensor& a, const ModelTensor& b) { return a.name() < b.name(); });
  }

  static TensorEntry raw(const GgufTensor& tensor) {
    return {tensor.name,
            StoredType::u8,
            {static_cast<std::int64_t>(tensor.bytes())},
            tensor.begin,
            tensor.end};
  }

  // Why a tensor cannot be quantized, whatever the format.
  static Verdict judge(const GgufLayer& layer, const GgufTensor& tensor) {
    Verdict verdict;
    verdict.module = module_of(tensor.name);
    verdict.kind = layer.linear ? TensorKind::linear : TensorKind::other;
    verdict.linear = layer.linear;
    verdict.kept = layer.kept;
    verdict.reason = layer.reason;
    if (!layer.linear) return verdict;
    if (tensor.shape.size() != (layer.experts ? 3u : 2u)) {
      verdict.kept = Kept::convolution;
      verdict.reason = fmt::format("{} dimensions", tensor.shape.size());
    } else if (tensor.bytes() == 0) {
      verdict.kept = Kept::empty;
      verdict.reason = "no elements";
    } else if (!info(tensor.type).has_decoder) {
      verdict.kept = Kept::element_type;
      verdict.reason = fmt::format("{} is not decoded here", info(tensor.type).name);
    }
    return verdict;
  }

  // The same where it depends on what it is to become; empty: nothing is in the way.
  std::string obstacle(const Item& item, WeightFormat format) const {
    const GgufTensor& tensor = item.entry();
    const auto type = gguf_type_of(format);
    if (!type) return fmt::format("GGUF has no {}", to_string(format));
    if (tensor.type == *type) return fmt::format("{} already", info(*type).name);
    const std::int64_t cols = tensor.shape.back(), block = info(*type).block;
    if (cols % block != 0) return fmt::format("K = {} is no multiple of {}", cols, block);
    if (format == WeightFormat::nvfp4 && !item.layer.scaled) {
      return "llama.cpp has no scale for it, which NVFP4 wants";
    }
    return "";
  }

  std::string_view architecture() const {
    const GgufValue* value = file_.value("general.architecture");
    return value ? value->text().value_or("") : "";
  }

  void add(const GgufFile::Tensor& tensor) {
    Item item;
    item.tensor = &tensor;
    const GgufTensor& entry = item.entry();
    item.layer = gguf_layer_of(entry.name);
    const Verdict verdict = judge(item.layer, entry);
    GgufSource source = source_of(item);
    item.flat = {entry.name, gguf_value_type(source), flat_shape(entry.shape), entry.begin,
                 entry.end};
    Decision decision = recipe_.decide(item.flat, verdict);
    WeightFormat format = recipe_.format_of(item.flat);
    if (format == WeightFormat::nvfp4 && leaves_out_gguf_scale(architecture(), entry.name)) {
      format = WeightFormat::mxfp4;
      lowered_ += decision.treatment == Treatment::quantize;
    }
    if (decision.treatment == Treatment::quantize) {
      if (std::string why = obstacle(item, format); !why.empty()) {
        decision = {Treatment::copy, std::move(why), true, false, Kept::block};
        ++obstructed_;
      }
    }
    add_source(item, decision.treatment == Treatment::quantize, std::move(source));
    plan_.tensors.push_back({.shard = 0,
                             .entry = &plan_.view.tensors.back().entry,
                             .decision = std::move(decision),
                             .verdict = verdict,
                             .experts = {},
                             .group = {},
                             .format = format,
                             .source = &plan_.view.tensors.back()});
    items_.push_back(std::move(item));
  }

  static std::vector<std::int64_t> flat_shape(const std::vector<std::int64_t>& shape) {
    if (shape.size() != 3) return shape;
    return {shape[0] * shape[1], shape[2]};
  }

  GgufSource source_of(const Item& item) const {
    const GgufTensor& entry = item.entry();
    GgufSource source;
    source.name = entry.name;
    source.shape = entry.shape;
    source.type = entry.type;
    source.part = item.tensor->part;
    source.begin = entry.begin;
    source.bytes = entry.bytes();
    const auto found = scales_.find(entry.name);
    if (found == scales_.end()) return source;
    if (found->second.size() == 1) {
      source.scale = found->second.front();
    } else {
      source.scales = found->second;
    }
    return source;
  }

  // Where the converter reads the tensor: its values, or its bytes.
  void add_source(const Item& item, bool values, GgufSource source) {
    const std::size_t part = item.tensor->part;
    const InputFile& file = plan_.model.shards[part].file;
    const GgufTensor& entry = item.entry();
    if (!values) {
      plan_.view.tensors.push_back({part, raw(entry), &file, nullptr});
      return;
    }
    const StoredType type = gguf_value_type(source);
    if (source.as_stored()) {
      plan_.view.tensors.push_back(
          {part, {entry.name, type, entry.shape, entry.begin, entry.end}, &file, nullptr});
      return;
    }
    plan_.view.weights.push_back(
        std::make_unique<GgufWeight>(std::move(source), *plan_.model.find(entry.name), file));
    const StoredWeight& weight = *plan_.view.weights.back();
    const auto bytes = static_cast<std::uint64_t>(weight.elements() * weight.value_bytes());
    plan_.view.tensors.push_back(
        {part, {entry.name, type, entry.shape, entry.begin, entry.begin + bytes}, &file, &weight});
  }

  bool quantized(std::size_t i) const {
    return plan_.tensors[i].decision.treatment == Treatment::quantize;
  }

  // Scales of weights that get others.
  void settle_scales() {
    std::unordered_map<std::string_view, std::size_t> by_name;
    for (std::size_t i = 0; i < items_.size(); ++i) by_name.emplace(items_[i].entry().name, i);
    for (std::size_t i = 0; i < items_.size(); ++i) {
      if (!quantized(i)) continue;
      const auto scale = by_name.find(gguf_scale_name(items_[i].entry().name));
      if (scale == by_name.end()) continue;
      Decision& decision = plan_.tensors[scale->second].decision;
      decision.treatment = Treatment::drop;
      decision.reason = "its weight is written anew";
    }
  }

  // Patterns that match nothing are most likely typing errors.
  Status check_patterns() const {
    std::vector<const TensorEntry*> all, chosen;
    for (std::size_t i = 0; i < items_.size(); ++i) {
      all.push_back(&items_[i].flat);
      if (quantized(i)) chosen.push_back(&items_[i].flat);
    }
    if (const auto unused = recipe_.unmatched_pattern(all)) {
      return Failure{ErrorCode::invalid_argument,
                     fmt::format("quantize: {} '{}' matches no tensor of '{}'; names are those of "
                                 "the file, such as 'blk.0.ffn_up'",
                                 unused->option, unused->text, options_.input.string())};
    }
    if (const auto idle = recipe_.idle_use(chosen)) {
      return Failure{ErrorCode::invalid_argument,
                     fmt::format("quantize: --use '{}' gives no layer its format; see with "
                                 "--dry-run what becomes of each",
                                 *idle)};
    }
    return check_includes(options_.include, plan_.tensors);
  }

  void add_notices() {
    ConversionPlan& summary = plan_.summary;
    summary.notices = notices_of(plan_.model, plan_.view);
    if (obstructed_ > 0) {
      const auto kept = std::find_if(plan_.tensors.begin(), plan_.tensors.end(), [](const auto& t) {
        return t.decision.kept == Kept::block && t.decision.linear;
      });
      summary.notices.push_back(fmt::format(
          "{} weights of layers are kept as they are, such as {}: {}; --dry-run lists them",
          obstructed_, in_quotes(kept->entry->name), kept->decision.reason));
    }
    const std::string name(architecture());
    if (lowered_ > 0) {
      summary.notices.push_back(
          fmt::format("llama.cpp's graph of {} does not multiply by the scales that NVFP4 wants in "
                      "feed-forward "
                      "layers, so {} weights of these become MXFP4",
                      name, lowered_));
    }
    if (!plan_.groups.empty() && !applies_gguf_scales(name)) {
      summary.notices.push_back(fmt::format(
          "whether llama.cpp multiplies by the scales of NVFP4 weights (*.scale) in models of the "
          "architecture {} was not checked: let it generate text before you rely on the file",
          in_quotes(name)));
    }
    if (file_.parts.size() > 1) {
      summary.notices.push_back(
          fmt::format("the {} parts of the input become one file", file_.parts.size()));
    }
  }

  GgufFile file_;
  const QuantizeModelOptions& options_;
  Recipe recipe_;
  ModelPlan plan_;
  std::map<std::string, std::vector<float>, std::less<>> scales_;
  std::vector<Item> items_;  // parallel to plan_.tensors
  std::size_t obstructed_ = 0;
  std::size_t lowered_ = 0;  // weights that NVFP4 is not for
};

}  // namespace

Result<ModelPlan> plan_gguf_output(const QuantizeModelOptions& options) {
  const auto refuse = [](const char* message) {
    return Failure{ErrorCode::invalid_argument, std::string("quantize: ") + message};
  };
  if (!options.lora.empty()) {
    return refuse(
        "adapters name the layers as Hugging Face does, and a GGUF file has other names; make the "
        "GGUF file from the model's folder, or leave out --lora");
  }
  if (options.experts) {
    return refuse("experts of a GGUF file stay as they lie; leave out --experts");
  }
  auto file = open_gguf(options.input);
  if (!file) return file.failure();
  auto recipe = Recipe::create(*weight_format_of(options.format), options.include, options.ignore,
                               options.use);
  if (!recipe) return recipe.failure();
  return GgufPlanner(std::move(file.value()), options, std::move(recipe.value())).plan();
}

}  // namespace microscale
