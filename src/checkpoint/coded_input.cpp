#include "checkpoint/coded_input.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "checkpoint/json.hpp"
#include "checkpoint/loader_steps.hpp"
#include "checkpoint/verify_scales.hpp"

namespace microscale {
namespace {

// What says beside the tensors that the weights are quantized.
std::optional<std::string> quantized_by_files(const ModelFolder& model, const ModelFacts& facts) {
  if (facts.quantized_by) return in_quotes(*facts.quantized_by) + " in config.json";
  for (const std::filesystem::path& file : model.other_files) {
    if (file == "hf_quant_config.json") return "'hf_quant_config.json' is there";
  }
  for (const ModelShard& shard : model.shards) {
    for (const auto& [key, value] : shard.header.metadata) {
      if (key == "_quantization_metadata")
        return fmt::format("ComfyUI's metadata in '{}'", shard.name);
    }
  }
  return std::nullopt;
}

// The tool whose marks the tensors show first; nothing where all are dense.
std::optional<QuantizingTool> tool_of(const ModelFolder& model, const Classifier& classifier) {
  for (const ModelTensor& tensor : model.tensors) {
    if (const auto tool = classifier.judge(*tensor.entry).tool) return tool;
  }
  return std::nullopt;
}

}  // namespace

std::string codings_in_words(const DenseView& view) {
  std::map<std::string_view, std::size_t> counts;
  for (const auto& weight : view.weights) {
    if (!weight->facts().exact) ++counts[weight->facts().description];
  }
  std::string words;
  for (const auto& [description, count] : counts) {
    words += fmt::format("{}{} ({} weight{})", words.empty() ? "" : "; ", description, count,
                         count == 1 ? "" : "s");
  }
  return words;
}

std::vector<std::string> notices_of(const ModelFolder& model, const DenseView& view) {
  std::vector<std::string> notices = model.sentences();
  const std::string codings = codings_in_words(view);
  if (codings.empty()) return notices;
  notices.insert(
      notices.begin(),
      fmt::format("the weights are quantized already: {}; they are decoded and quantized "
                  "from these values, and every error is against them, not against the "
                  "model that they were made of",
                  codings));
  return notices;
}

Status refuse_described(const ModelFolder& model, const DenseView& view,
                        const Classifier& classifier) {
  const auto by = view.computed() ? std::nullopt : quantized_by_files(model, classifier.facts());
  if (!by) return success();
  if (const auto tool = tool_of(model, classifier)) {
    return Failure{ErrorCode::bad_input,
                   fmt::format("quantize: '{}' is quantized already ({}); {}",
                               model.opened.string(), *by, way_to_dense(*tool))};
  }
  return Failure{
      ErrorCode::bad_input,
      fmt::format("quantize: '{}' is described as quantized ({}), but no tensor of it is; if its "
                  "weights are dense, a merged adapter's for instance, remove that description "
                  "(quantization_config in config.json) and start again",
                  model.opened.string(), *by)};
}

Status check_coded_input(const ModelFolder& model, const DenseView& view,
                         const QuantizeModelOptions& options) {
  if (Status known = refuse_loader_steps(model, "quantize"); !known) return known;
  if (Status scales = refuse_bad_scales(model, view.weights, "quantize"); !scales) return scales;
  const auto has_format = [&](const auto& weight) {
    return weight->blocks() && weight->blocks()->format == options.format;
  };
  if (!view.computed() || options.keep_codes || !options.use.empty() || !options.lora.empty() ||
      !std::all_of(view.weights.begin(), view.weights.end(), has_format)) {
    return success();
  }
  const std::size_t more = view.weights.size() - 1;
  return Failure{
      ErrorCode::bad_input,
      fmt::format("quantize: the weights of '{}' are quantized already: {}{} {} {}, which "
                  "quantizing again could only make worse; name another format, or start from the "
                  "full-precision model",
                  model.opened.string(), in_quotes(view.weights.front()->codes().name()),
                  more > 0 ? fmt::format(" and {} more", more) : "", more > 0 ? "are" : "is",
                  info(options.format).name)};
}

void leave_out_descriptions(ModelFolder& model) {
  if (std::erase(model.other_files, std::filesystem::path(modelopt_config)) == 0) return;
  model.left_out_files.push_back({modelopt_config, "describes the input's quantization"});
  std::sort(model.left_out_files.begin(), model.left_out_files.end(),
            [](const LeftOutFile& a, const LeftOutFile& b) { return a.path < b.path; });
}

}  // namespace microscale
