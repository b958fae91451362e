// Modules that inference engines load together: layers they fuse into one, and the experts of a
// layer. All of a group must be quantized alike.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>
#include <optional>

#include "checkpoint/fused_groups.hpp"
#include "checkpoint/json.hpp"
#include "checkpoint/recipe.hpp"
#include "checkpoint/verify_model.hpp"

namespace microscale {
namespace {

// A weight by its module, quantized or dense.
struct Member {
  std::string module;
  const LogicalTensor* tensor = nullptr;
  std::string_view format() const {
    if (tensor->module) return info(tensor->module->format).name;
    if (tensor->weight) return tensor->weight->facts().description;
    const StoredType type = tensor->stored->entry->type;
    const bool dense = dense_type(type) || type == StoredType::f64;
    return dense ? std::string_view("not quantized") : std::string_view(to_string(type));
  }
};

std::string_view file_of(const QuantizedFolder& folder, const Member& member) {
  return folder.file_of(member.tensor->main_part());
}

void report(const QuantizedFolder& folder, std::string_view rule, const Member& member,
            const std::string& text, Findings& findings) {
  findings.push_back(
      make_finding(Severity::error, rule, file_of(folder, member), member.module, text));
}

// Every two-dimensional "<module>.weight".
std::vector<Member> weights_of(const QuantizedFolder& folder) {
  constexpr std::string_view suffix = ".weight";
  std::vector<Member> members;
  for (const LogicalTensor& tensor : folder.tensors) {
    if (!tensor.name.ends_with(suffix) || tensor.shape.size() != 2) continue;
    members.push_back({tensor.name.substr(0, tensor.name.size() - suffix.size()), &tensor});
  }
  return members;
}

std::optional<float> input_scale_of(const QuantizedFolder& folder, const QuantizedModule& module) {
  const TensorEntry& entry = *module.input_scale->entry;
  std::array<std::uint8_t, 4> bytes{};
  if (entry.type != StoredType::f32 || entry.bytes() != bytes.size()) return std::nullopt;
  take(folder.model.shards[module.input_scale->shard].file.read_at(entry.begin, bytes));
  return std::bit_cast<float>(bytes);
}

// A divisor that was stored as a multiplier, or the reverse, stands for inputs of millions.
void check_direction(const QuantizedFolder& folder, const QuantizedModule& module, double value,
                     Findings& findings) {
  constexpr double most = 2688;  // 448 * 6
  constexpr double suspicious = 1e5;
  const double amax = module.stores_divisor ? most / value : most * value;
  if (module.format != Format::nvfp4 || amax <= suspicious) return;
  findings.push_back(make_finding(
      Severity::warning, "input-scale-reciprocal", folder.file_of(*module.input_scale),
      module.input_scale->name(),
      fmt::format("the activation scale {} stands for inputs as large as {:.3g}; it may be stored "
                  "as its reciprocal ({} here): calibrate the model again",
                  value, amax, module.stores_divisor ? "2688 / amax" : "amax / 2688")));
}

}  // namespace

void verify_input_scales(const QuantizedFolder& folder, Findings& findings) {
  if (folder.planned) return;
  for (const QuantizedModule& module : folder.modules) {
    if (!module.input_scale) continue;
    const std::optional<float> value = input_scale_of(folder, module);
    if (value && *value > 0 && std::isfinite(*value)) {
      check_direction(folder, module, static_cast<double>(*value), findings);
      continue;
    }
    findings.push_back(make_finding(
        Severity::error, "input-scale-value", folder.file_of(*module.input_scale),
        module.input_scale->name(),
        value ? fmt::format(
                    "the activation scale is {}, which must be finite and positive; calibrate "
                    "the model again",
                    *value)
              : "an activation scale is F32 with one element; calibrate the model again"));
  }
}

namespace {

// All against the first: quantized or not, format, global scale, activation scale.
void check_fused(const QuantizedFolder& folder, const std::vector<const Member*>& group,
                 Findings& findings) {
  const Member& first = *group.front();
  for (std::size_t i = 1; i < group.size(); ++i) {
    const Member& member = *group[i];
    if (member.format() != first.format()) {
      report(
          folder, "fused-formats", member,
          fmt::format(
              "it is {} but {}, which loaders fuse with it, is {}; quantize or ignore both alike",
              member.format(), in_quotes(first.module), first.format()),
          findings);
      continue;
    }
    const QuantizedModule *one = first.tensor->module, *other = member.tensor->module;
    if (!one) continue;
    if (one->stored_global != other->stored_global) {
      report(folder, "fused-global-scale", member,
             fmt::format(
                 "its global scale is {} but that of {}, which loaders fuse with it, is {}; they "
                 "keep one for both, so quantize the model again with a shared scale",
                 other->stored_global, in_quotes(first.module), one->stored_global),
             findings);
    }
    if (folder.planned || !one->input_scale || !other->input_scale) continue;
    const auto mine = input_scale_of(folder, *other), its = input_scale_of(folder, *one);
    if (mine && its && *mine != *its) {
      report(folder, "fused-input-scale", member,
             fmt::format(
                 "its activation scale is {} but that of {}, which loaders fuse with it, is {}; "
                 "give both the more cautious one",
                 *mine, in_quotes(first.module), *its),
             findings);
    }
  }
}

// All weights of a layer's experts against the first.
void check_expert_layer(const QuantizedFolder& folder, const std::vector<const Member*>& experts,
                        Findings& findings) {
  const Member& first = *experts.front();
  for (const Member* member : experts) {
    if (member->format() == first.format()) continue;
    report(folder, "expert-formats", *member,
           fmt::format("it is {} but {} is {}; loaders need all experts of a layer alike, so "
                       "convert the model again",
                       member->format(), in_quotes(first.module), first.format()),
           findings);
  }
}

}  // namespace

void verify_groups(const QuantizedFolder& folder, Findings& findings) {
  if (folder.modules.empty()) return;
  if (!folder.planned) verify_input_scales(folder, findings);
  const std::vector<Member> members = weights_of(folder);
  std::map<std::string, std::vector<const Member*>> fused;
  std::map<std::string, std::vector<const Member*>> layers;
  for (const Member& member : members) {
    if (auto group = fused_group_of(member.module)) fused[*group].push_back(&member);
    if (auto layer = expert_layer_of(member.module)) layers[std::string(*layer)].push_back(&member);
  }
  for (const auto& [name, group] : fused) check_fused(folder, group, findings);
  for (const auto& [name, experts] : layers) check_expert_layer(folder, experts, findings);
}

}  // namespace microscale
