#include "checkpoint/verify_plan.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "checkpoint/verify_model.hpp"

namespace microscale {
namespace {

constexpr std::size_t length_bytes = 8;  // before the header's JSON

// The folder as it will be, without a byte of its tensors.
ModelFolder planned_folder(const ModelFolder& source, const std::vector<PlannedFile>& files,
                           const std::string& config_text) {
  ModelFolder folder;
  folder.opened = folder.root = source.root;  // where the files to be copied still are
  folder.whole_folder = true;
  folder.index_name = source.index_name;
  if (!config_text.empty()) folder.config_text = config_text;
  folder.other_files = source.other_files;
  for (const PlannedFile& file : files) {
    const SafetensorsLayout& layout = *file.layout;
    const auto* header = reinterpret_cast<const std::uint8_t*>(layout.header.data());
    folder.shards.push_back(
        {file.name, InputFile::planned(file.name, layout.file_size),
         take(parse_safetensors_header({header + length_bytes, layout.header.size() - length_bytes},
                                       layout.file_size)),
         file.side});
  }
  for (std::size_t i = 0; i < folder.shards.size(); ++i) {
    for (const TensorEntry& entry : folder.shards[i].header.tensors) {
      folder.tensors.push_back({i, &entry});
    }
  }
  std::sort(folder.tensors.begin(), folder.tensors.end(),
            [](const ModelTensor& a, const ModelTensor& b) { return a.name() < b.name(); });
  return folder;
}

}  // namespace

Findings verify_planned(const ModelFolder& source, const std::vector<PlannedFile>& files,
                        const std::string& config_text) {
  const QuantizedFolder folder =
      take(sort_quantized_folder(planned_folder(source, files, config_text), true));
  Findings findings;
  verify_files(folder, true, findings);
  verify_headers(folder, findings);
  // Scales of the cache are copied, so they can be read where they are.
  std::optional<QuantizationConfig> config;
  if (auto parsed = parse_quantization_config(config_text)) config = std::move(parsed.value());
  verify_kv_cache(source, config ? &*config : nullptr, findings);
  return findings;
}

Findings verify_plan(const ModelPlan& plan) {
  std::vector<PlannedFile> files;
  for (std::size_t i = 0; i < plan.shards.size(); ++i) {
    files.push_back({plan.model.shards[i].name, &plan.shards[i].layout});
  }
  return verify_planned(plan.model, files, plan.config_text);
}

Status check_plan(const ModelPlan& plan) {
  if (plan.one_file) return success();  // no folder; its header was read back when it was laid out
  // Of a plan that quantizes nothing the converter says so, and a dry run says why.
  if (std::all_of(plan.shards.begin(), plan.shards.end(),
                  [](const ShardPlan& shard) { return shard.matrices.empty(); })) {
    return success();
  }
  const Findings findings = verify_plan(plan);
  const auto is_error = [](const Finding& finding) { return finding.severity == Severity::error; };
  const auto first = std::find_if(findings.begin(), findings.end(), is_error);
  if (first == findings.end()) return success();
  const auto more = std::count_if(first + 1, findings.end(), is_error);
  return Failure{ErrorCode::bad_input,
                 fmt::format("quantize: the result would fail verify: {}{}", first->message,
                             more > 0 ? fmt::format(" (and {} more)", more) : "")};
}

}  // namespace microscale
