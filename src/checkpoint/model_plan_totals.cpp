#include "checkpoint/model_plan_totals.hpp"

#include "checkpoint/finished_run.hpp"
#include "checkpoint/output_folder.hpp"

namespace microscale {

Status add_totals(ModelPlan& plan, const QuantizeModelOptions& options) {
  ConversionPlan& summary = plan.summary;
  for (const TensorPlan& tensor : summary.tensors) {
    summary.bytes_before += tensor.bytes_before;
    summary.bytes_after += tensor.bytes_after;
  }
  std::uint64_t needed = plan.config_text.size() + plan.index_text.size() + plan.model.made_bytes();
  for (const auto& [name, text] : plan.other_texts) needed += text.size();
  for (const ShardPlan& shard : plan.shards) needed += shard.layout.file_size;
  const auto manifest = manifest_size(plan, options);
  if (!manifest) return manifest.failure();
  needed += manifest.value();
  for (const std::filesystem::path& file : plan.model.other_files) {
    std::error_code error;
    const auto size = std::filesystem::file_size(plan.model.root / file, error);
    if (!error) needed += size;
  }
  summary.disk_needed = static_cast<std::int64_t>(needed);
  const auto free = free_space(options.output);
  if (!free) return free.failure();
  const std::uint64_t held = options.resume ? held_bytes(plan, options) : 0;
  summary.disk_free = static_cast<std::int64_t>(free.value() + held);
  return success();
}

}  // namespace microscale
