#include "checkpoint/repair_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <deque>
#include <set>

#include "checkpoint/classifier.hpp"
#include "checkpoint/fused_groups.hpp"
#include "checkpoint/json.hpp"
#include "checkpoint/module_match.hpp"
#include "checkpoint/repair_config.hpp"
#include "checkpoint/rescale.hpp"
#include "checkpoint/verify_model.hpp"
#include "checkpoint/verify_plan.hpp"

namespace microscale {
namespace {

using Members = std::vector<const QuantizedModule*>;

std::vector<std::uint8_t> bytes_of(float value) {
  const auto bytes = std::bit_cast<std::array<std::uint8_t, 4>>(value);
  return {bytes.begin(), bytes.end()};
}

std::string and_more(std::size_t count) {
  return count > 1 ? fmt::format(" and {} more", count - 1) : "";
}

// Buffers and parts that no loader knows, out of the list of tensors.
void drop_leftovers(ModelFolder& model, std::vector<std::string>& changes) {
  const Classifier classifier = take(classify_model(model));
  std::set<std::string> dropped;
  for (const ModelTensor& tensor : model.tensors) {
    const Verdict verdict = classifier.judge(*tensor.entry);
    if (verdict.kind != TensorKind::leftover) continue;
    // The scale of a layer's input belongs to a quantized layer.
    const bool input =
        tensor.name().ends_with(".input_scale") || tensor.name().ends_with(".input_global_scale");
    if (input && model.find(verdict.module + ".weight_scale")) continue;
    dropped.insert(tensor.name());
  }
  if (dropped.empty()) return;
  changes.push_back(fmt::format("took out {}{}, left over from a calibration",
                                in_quotes(*dropped.begin()), and_more(dropped.size())));
  std::erase_if(model.tensors,
                [&](const ModelTensor& tensor) { return dropped.contains(tensor.name()); });
}

class Planner {
 public:
  explicit Planner(RepairPlan& plan) : plan_(plan) {}

  void run() {
    std::map<std::string, Members> groups;
    for (const QuantizedModule& module : plan_.folder.modules) {
      if (auto name = fused_group_of(module.name)) groups[*name].push_back(&module);
    }
    for (const auto& [name, members] : groups) {
      if (members.size() < 2) continue;
      share_global_scale(members);
      share_input_scale(members);
    }
    drop_input_scales();
    if (!rescaled_.empty()) {
      plan_.changes.push_back(fmt::format("gave {} fused layer{} one global scale each: {}",
                                          group_count_, group_count_ > 1 ? "s" : "",
                                          in_quotes(first_group_) + and_more(group_count_)));
    }
    if (inputs_shared_ > 0) {
      plan_.changes.push_back(
          fmt::format("gave {} fused layer{} the more cautious activation scale", inputs_shared_,
                      inputs_shared_ > 1 ? "s" : ""));
    }
  }

  Status lay_out() {
    const ModelFolder& model = plan_.folder.model;
    std::vector<std::vector<const ModelTensor*>> homes(model.shards.size());
    for (const ModelTensor& tensor : model.tensors) {
      if (!dropped_.contains(&tensor)) homes[tensor.shard].push_back(&tensor);
    }
    for (std::size_t shard = 0; shard < homes.size(); ++shard) {
      std::vector<PlannedTensor> planned;
      std::map<std::string_view, const ModelTensor*> by_name;
      for (const ModelTensor* tensor : homes[shard]) {
        planned.push_back({tensor->name(), tensor->entry->type, tensor->entry->shape});
        by_name[tensor->name()] = tensor;
      }
      auto layout = plan_safetensors(std::move(planned), metadata(model.shards[shard]));
      if (!layout) return layout.failure();
      RepairedFile file{
          model.shards[shard].name, model.shards[shard].side, std::move(layout.value()), {}};
      for (const TensorEntry& entry : file.layout.tensors) {
        file.tensors.push_back(repaired(by_name.at(entry.name)));
      }
      plan_.files.push_back(std::move(file));
    }
    return success();
  }

 private:
  CodeHistogram scales_of(const QuantizedModule& module) const {
    CodeHistogram histogram{};
    constexpr std::uint64_t piece = 1 << 20;
    const TensorEntry& entry = *module.scales->entry;
    std::vector<std::uint8_t> bytes;
    for (std::uint64_t at = entry.begin; at < entry.end; at += piece) {
      bytes.resize(std::min(piece, entry.end - at));
      take(plan_.folder.model.shards[module.scales->shard].file.read_at(at, bytes));
      for (const std::uint8_t scale : bytes) ++histogram[scale];
    }
    return histogram;
  }

  // The global scale of that member under which fewest blocks change; of equals the largest, which
  // no scale of the others exceeds.
  void share_global_scale(const Members& members) {
    const auto differs = [&](const QuantizedModule* module) {
      return module->stored_global != members.front()->stored_global;
    };
    if (std::none_of(members.begin(), members.end(), differs)) return;
    std::vector<CodeHistogram> scales;
    for (const QuantizedModule* module : members) scales.push_back(scales_of(*module));
    const QuantizedModule* target = nullptr;
    std::uint64_t fewest = 0;
    for (const QuantizedModule* candidate : members) {
      std::uint64_t inexact = 0;
      for (std::size_t i = 0; i < members.size(); ++i) {
        inexact += inexact_blocks(scales[i], ratio(*members[i], *candidate));
      }
      const bool better = !target || inexact < fewest ||
                          (inexact == fewest && candidate->multiplier > target->multiplier);
      if (better) target = candidate, fewest = inexact;
    }
    for (const QuantizedModule* module : members) {
      if (module->stored_global == target->stored_global) continue;
      const Rescaled rescaled{module, ratio(*module, *target)};
      rescaled_[module->codes] = rescaled_[module->scales] = rescaled;
      replaced_[module->global_scale] = bytes_of(target->stored_global);
    }
    if (++group_count_ == 1) first_group_ = members.front()->name;
  }

  // What block scales are multiplied by when `module` gets the global scale of `target`.
  static double ratio(const QuantizedModule& module, const QuantizedModule& target) {
    const double own = module.stored_global, other = target.stored_global;
    return module.stores_divisor ? other / own : own / other;
  }

  // Activations must fit: of divisors the least, of multipliers the largest.
  void share_input_scale(const Members& members) {
    std::vector<float> values;
    for (const QuantizedModule* module : members) {
      if (!module->input_scale || module->input_scale->entry->bytes() != 4) return;
      std::array<std::uint8_t, 4> bytes{};
      const ModelTensor& tensor = *module->input_scale;
      take(plan_.folder.model.shards[tensor.shard].file.read_at(tensor.entry->begin, bytes));
      values.push_back(std::bit_cast<float>(bytes));
    }
    const auto [least, most] = std::minmax_element(values.begin(), values.end());
    if (*least == *most) return;
    const bool divisor = members.front()->input_scale->name().ends_with("_global_scale");
    const float shared = divisor ? *least : *most;
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (values[i] != shared) replaced_[members[i]->input_scale] = bytes_of(shared);
    }
    ++inputs_shared_;
  }

  // Stored, but config.json asks for none.
  void drop_input_scales() {
    Findings ignored;
    const auto description = read_description(plan_.folder, ignored);
    if (!description) return;
    const ModuleExpectations expectations(description->config);
    std::size_t count = 0;
    for (const QuantizedModule& module : plan_.folder.modules) {
      if (!module.input_scale) continue;
      const Expectation expected = expectations.of(module.name, true);
      if (!expected.group || expected.group->static_activations) continue;
      dropped_.insert(module.input_scale);
      ++count;
    }
    if (count == 0) return;
    plan_.changes.push_back(
        fmt::format("took out {} activation scale{} that config.json does not ask for", count,
                    count > 1 ? "s" : ""));
  }

  SafetensorsMetadata metadata(const ModelShard& shard) {
    SafetensorsMetadata metadata = shard.header.metadata;
    if (!metadata.empty() && has_known_format(metadata)) return metadata;
    std::erase_if(metadata, [](const auto& entry) { return entry.first == "format"; });
    if (!shard.header.metadata.empty()) {
      plan_.changes.push_back(
          fmt::format("wrote the format 'pt' into the metadata of {}", shard.name));
    }
    metadata.insert(metadata.end(), pytorch_metadata.begin(), pytorch_metadata.end());
    return metadata;
  }

  RepairedTensor repaired(const ModelTensor* tensor) const {
    RepairedTensor result;
    result.source = tensor;
    if (const auto bytes = replaced_.find(tensor); bytes != replaced_.end()) {
      result.bytes = bytes->second;
    }
    if (const auto found = rescaled_.find(tensor); found != rescaled_.end()) {
      result.rescaled = found->second.module;
      result.ratio = found->second.ratio;
    }
    return result;
  }

  RepairPlan& plan_;
  struct Rescaled {
    const QuantizedModule* module = nullptr;
    double ratio = 1;
  };
  std::map<const ModelTensor*, Rescaled> rescaled_;  // by codes and by scales
  std::map<const ModelTensor*, std::vector<std::uint8_t>> replaced_;
  std::set<const ModelTensor*> dropped_;
  std::size_t group_count_ = 0, inputs_shared_ = 0;
  std::string first_group_;
};

}  // namespace

Result<RepairPlan> plan_repair(ModelFolder model) {
  RepairPlan plan;
  drop_leftovers(model, plan.changes);
  plan.folder = take(sort_quantized_folder(std::move(model)));
  Planner planner(plan);
  planner.run();
  if (Status laid = planner.lay_out(); !laid) return laid.failure();
  if (plan.folder.model.config_text) plan.config_text = *plan.folder.model.config_text;
  auto config = repaired_config(plan.folder, plan.changes);
  if (!config) return config.failure();
  if (!config.value().empty()) plan.config_text = std::move(config.value());
  std::vector<PlannedFile> files;
  for (const RepairedFile& file : plan.files) files.push_back({file.name, &file.layout, file.side});
  const Findings findings = verify_planned(plan.folder.model, files, plan.config_text);
  const auto first = std::find_if(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.severity == Severity::error;
  });
  if (first != findings.end()) {
    return Failure{ErrorCode::bad_input,
                   fmt::format("repair: this it cannot mend: {}", first->message)};
  }
  return plan;
}

}  // namespace microscale
