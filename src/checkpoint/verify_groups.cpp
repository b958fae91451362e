// Modules that inference engines load together: layers they fuse into one, and the experts of a
// layer. All of a group must be there and be quantized alike.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "checkpoint/fused_groups.hpp"
#include "checkpoint/config_json.hpp"
#include "checkpoint/json.hpp"
#include "checkpoint/recipe.hpp"
#include "checkpoint/verify_model.hpp"

namespace microscale {
namespace {

constexpr std::int64_t largest_expert = 1'000'000;  // beyond this a number means something else

// A weight by its module, quantized or dense.
struct Member {
  std::string module;
  const LogicalTensor* tensor = nullptr;
  std::string_view format() const {
    if (tensor->module) return info(tensor->module->format).name;
    if (tensor->weight) return tensor->weight->facts().description;
    const StoredType type = tensor->stored->entry->type;
    return dense_type(type) ? std::string_view("not quantized") : std::string_view(to_string(type));
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

void check_input_scales(const QuantizedFolder& folder, Findings& findings) {
  if (folder.planned) return;
  for (const QuantizedModule& module : folder.modules) {
    if (!module.input_scale) continue;
    const std::optional<float> value = input_scale_of(folder, module);
    if (value && *value > 0 && std::isfinite(*value)) continue;
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

// "a.experts.3.up_proj" -> "a.experts", 3, "up_proj".
struct ExpertName {
  std::string layer;
  std::int64_t expert = 0;
  std::string part;
};

std::optional<ExpertName> expert_name(const std::string& module) {
  constexpr std::string_view marker = ".experts.";
  const std::size_t at = module.find(marker);
  if (at == std::string::npos) return std::nullopt;
  const char* digits = module.data() + at + marker.size();
  const char* end = module.data() + module.size();
  ExpertName name;
  const auto parsed = std::from_chars(digits, end, name.expert);
  if (parsed.ec != std::errc() || parsed.ptr == end || *parsed.ptr != '.') return std::nullopt;
  if (name.expert < 0 || name.expert > largest_expert) return std::nullopt;
  name.layer = module.substr(0, at + marker.size() - 1);
  name.part = std::string(parsed.ptr + 1, end);
  return name;
}

struct ExpertLayer {
  std::map<std::int64_t, std::map<std::string, const Member*>> experts;
  std::set<std::string> parts;
};

// How many experts config.json promises for each layer that has any; 0: it does not say.
std::int64_t expert_count(const ModelFolder& model) {
  if (!model.config_text) return 0;
  const auto config = parse_config(*model.config_text);
  if (!config || !config.value().is_object()) return 0;
  const auto nested = config.value().find("text_config");
  const bool has_nested = nested != config.value().end() && nested->is_object();
  for (const auto* object : {&config.value(), has_nested ? &*nested : &config.value()}) {
    for (const char* key : {"num_experts", "num_local_experts", "n_routed_experts"}) {
      const auto found = object->find(key);
      if (found == object->end() || !found->is_number_unsigned()) continue;
      const auto count = found->get<std::uint64_t>();
      if (count <= static_cast<std::uint64_t>(largest_expert))
        return static_cast<std::int64_t>(count);
    }
  }
  return 0;
}

void check_expert_layer(const QuantizedFolder& folder, const std::string& name,
                        std::int64_t promised, const ExpertLayer& layer, Findings& findings) {
  const std::int64_t count = std::max(promised, layer.experts.rbegin()->first + 1);
  const auto part_count = static_cast<std::int64_t>(layer.parts.size());
  const Member& first = *layer.experts.begin()->second.begin()->second;
  std::int64_t missing = 0, next = 0;
  std::string first_missing;
  const auto miss = [&](std::int64_t expert, const std::string& part, std::int64_t how_many) {
    if (missing == 0) first_missing = fmt::format("{}.{}.{}", name, expert, part);
    missing += how_many;
  };
  for (const auto& [expert, parts] : layer.experts) {
    if (expert > next) miss(next, *layer.parts.begin(), (expert - next) * part_count);
    next = expert + 1;
    for (const std::string& part : layer.parts) {
      const auto found = parts.find(part);
      if (found == parts.end()) {
        miss(expert, part, 1);
        continue;
      }
      const Member& member = *found->second;
      if (member.format() == first.format()) continue;
      report(folder, "expert-formats", member,
             fmt::format(
                 "it is {} but {} is {}; loaders need all experts of a layer alike, so convert "
                 "the model again",
                 member.format(), in_quotes(first.module), first.format()),
             findings);
    }
  }
  if (count > next) miss(next, *layer.parts.begin(), (count - next) * part_count);
  if (missing == 0) return;
  findings.push_back(make_finding(
      Severity::error, "experts-missing", "", name,
      fmt::format(
          "of {} experts with {} weights each, {} weights are missing, first {}; convert the "
          "model again",
          count, layer.parts.size(), missing, in_quotes(first_missing))));
}

}  // namespace

void verify_groups(const QuantizedFolder& folder, Findings& findings) {
  if (folder.modules.empty()) return;
  if (!folder.planned) check_input_scales(folder, findings);
  const std::vector<Member> members = weights_of(folder);
  std::map<std::string, std::vector<const Member*>> fused;
  std::map<std::string, ExpertLayer> layers;
  for (const Member& member : members) {
    if (auto group = fused_group_of(member.module)) fused[*group].push_back(&member);
    if (auto name = expert_name(member.module)) {
      ExpertLayer& layer = layers[name->layer];
      layer.parts.insert(name->part);
      layer.experts[name->expert][name->part] = &member;
    }
  }
  for (const auto& [name, group] : fused) check_fused(folder, group, findings);
  const std::int64_t promised = layers.empty() ? 0 : expert_count(folder.model);
  for (const auto& [name, layer] : layers) {
    check_expert_layer(folder, name, promised, layer, findings);
  }
}

}  // namespace microscale
