#include "checkpoint/input_scales.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "checkpoint/classifier.hpp"
#include "checkpoint/config_json.hpp"
#include "checkpoint/file.hpp"
#include "checkpoint/fused_groups.hpp"
#include "checkpoint/json.hpp"
#include "checkpoint/tensor_name.hpp"
#include "checkpoint/weight_format.hpp"
#include "formats/half.hpp"

namespace microscale {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t largest_json = 256 << 20;
// NVFP4's largest magnitude under a global scale of 1, and E4M3's.
constexpr double nvfp4_range = 2688, fp8_range = 448;

// Spellings of the number itself, behind a module's name; the longest that fits counts.
constexpr std::array<std::string_view, 5> amax_suffixes{
    ".input_quantizer._amax", "_input_quantizer._amax", ".input_quantizer.amax", ".input_amax",
    ".amax"};
constexpr std::string_view divisor_suffix = ".input_global_scale", scale_suffix = ".input_scale";
constexpr std::string_view statistics_suffix = ".amax";  // a vector, of `microscale calibrate`

bool cut_suffix(std::string_view& name, std::string_view suffix) {
  if (!name.ends_with(suffix)) return false;
  name.remove_suffix(suffix.size());
  return true;
}

Result<double> read_number(const InputFile& file, const TensorEntry& entry) {
  std::array<std::uint8_t, 8> bytes{};
  const auto part = std::span(bytes).first(entry.bytes());
  if (Status read = file.read_at(entry.begin, part); !read) return read.failure();
  const auto as = [&](auto value) {
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  };
  switch (entry.type) {
    case StoredType::f64:
      return as(0.0);
    case StoredType::f32:
      return static_cast<double>(as(0.0f));
    case StoredType::f16:
      return static_cast<double>(f16_to_float(as(std::uint16_t{})));
    default:
      return static_cast<double>(bf16_to_float(as(std::uint16_t{})));
  }
}

// The largest of a vector F32, NaN if it has one.
Result<double> read_largest(const InputFile& file, const TensorEntry& entry) {
  std::vector<float> values(entry.bytes() / sizeof(float));
  const std::span bytes(reinterpret_cast<std::uint8_t*>(values.data()), entry.bytes());
  if (Status read = file.read_at(entry.begin, bytes); !read) return read.failure();
  float largest = 0;
  for (const float value : values) {
    if (!(value <= largest)) largest = value;
    if (std::isnan(value)) break;
  }
  return static_cast<double>(largest);
}

bool is_number(const TensorEntry& entry) {
  const bool one = std::all_of(entry.shape.begin(), entry.shape.end(),
                               [](std::int64_t dimension) { return dimension == 1; });
  return one && (entry.type == StoredType::f64 || dense_type(entry.type));
}

// What ModelOpt's input_scale divides amax by, which the tensors beside it tell.
template <class Entries>
std::optional<double> range_of(std::string_view module, const Entries& beside) {
  const std::string name(module);
  if (beside.contains(name + ".weight_scale_2")) return nvfp4_range;
  const auto weight = beside.find(name + ".weight");
  if (weight != beside.end() && weight->second->type == StoredType::f8_e4m3) return fp8_range;
  return std::nullopt;
}

// A scale of activations must be a normal number as divisor and as multiplier.
bool usable(double amax) {
  const auto divisor = static_cast<float>(nvfp4_range / amax);
  return std::isnormal(divisor) && std::isnormal(1.0f / divisor);
}

// Names under which the number of a module may stand, its own first.
std::vector<std::string> names_of(const ScaledInput& input) {
  std::vector<std::string> names{input.module};
  if (const auto fused = fused_name_of(input.module)) names.push_back(*fused);
  if (input.stored != input.module) names.push_back(input.stored);
  return names;
}

// The experts of a layer in the same place: "a.experts/gate_up_proj".
std::optional<std::string> siblings_of(const std::string& module) {
  const auto layer = expert_layer_of(module);
  if (!layer) return std::nullopt;
  const std::string fused = fused_group_of(module).value_or(module);
  const std::size_t number = layer->size() + 1;
  return std::string(*layer) + fused.substr(std::min(fused.size(), fused.find('.', number)));
}

}  // namespace

void InputAmaxes::add(const std::string& name, double value, const std::string& problem,
                      const Entries& beside) {
  std::string_view module = name;
  Number number{value, name, problem, true};
  if (cut_suffix(module, divisor_suffix)) {
    number.amax = nvfp4_range / value;
  } else if (cut_suffix(module, scale_suffix)) {
    const auto range = range_of(module, beside);
    if (range) {
      number.amax = value * *range;
    } else if (number.problem.empty()) {
      number.problem =
          "does not say of which format it is, so the largest input cannot be told; give that as "
          "NAME.input_amax, or name ModelOpt's file of weights";
    }
  } else {
    for (const std::string_view suffix : amax_suffixes) {
      if (cut_suffix(module, suffix)) break;
    }
    number.spelled = module.size() < name.size();
    number.amax = static_cast<double>(static_cast<float>(value));  // as calibrations have it
  }
  const auto [place, added] = numbers_.emplace(module, number);
  if (added || (place->second.amax == number.amax && number.problem.empty())) return;
  place->second.problem =
      fmt::format("and {} both give a number, and not the same; leave one out", in_quotes(name));
}

Status InputAmaxes::read_json(std::string_view text) {
  const auto tree = parse_config(text);
  const auto bad = [&](const std::string& what) {
    return Failure{ErrorCode::bad_input,
                   fmt::format("quantize: the input scales '{}': {}", path_.string(), what)};
  };
  if (!tree) return bad(tree.failure().message);
  if (!tree.value().is_object()) return bad("an object of module names and numbers was wanted");
  for (const auto& [name, given] : tree.value().items()) {
    if (name.starts_with("__")) continue;
    const Json value = given.is_array() && given.size() == 1 ? given[0] : given;
    add(name, value.is_number() ? value.get<double>() : 1.0,
        value.is_number() ? "" : "is no finite number", {});
  }
  return success();
}

Status InputAmaxes::read_tensors(const InputFile& file) {
  const auto header = read_safetensors_header(file);
  if (!header) return header.failure();
  const auto statistics = read_statistics_metadata(header.value().metadata);
  if (!statistics) {
    return Failure{statistics.failure().code,
                   fmt::format("quantize: the input scales '{}': {}", path_.string(),
                               statistics.failure().message)};
  }
  if (statistics.value()) return read_statistics(file, header.value(), *statistics.value());
  Entries entries;
  for (const TensorEntry& entry : header.value().tensors) entries.emplace(entry.name, &entry);
  for (const TensorEntry& entry : header.value().tensors) {
    if (!is_number(entry)) {
      is_checkpoint_ = true;
      add(entry.name, 1.0,
          fmt::format("is {} [{}]; one number was wanted, F32", to_string(entry.type),
                      fmt::join(entry.shape, ", ")),
          entries);
      continue;
    }
    const auto value = read_number(file, entry);
    if (!value) return value.failure();
    add(entry.name, value.value(), "", entries);
  }
  return success();
}

Status InputAmaxes::read_statistics(const InputFile& file, const SafetensorsHeader& header,
                                    const StatisticsMetadata& metadata) {
  for (const TensorEntry& entry : header.tensors) {
    std::string_view module = entry.name;
    if (entry.type != StoredType::f32 || !cut_suffix(module, statistics_suffix)) continue;
    const auto largest = read_largest(file, entry);
    if (!largest) return largest.failure();
    numbers_.emplace(module, Number{largest.value(), entry.name, "", true});
  }
  for (const auto& [module, owner] : metadata.shares) {
    if (const auto found = numbers_.find(owner); found != numbers_.end()) {
      const Number number = found->second;
      numbers_.emplace(module, number);
    }
  }
  return success();
}

Result<InputAmaxes> InputAmaxes::open(const std::filesystem::path& path) {
  InputAmaxes amaxes;
  amaxes.path_ = path;
  const auto file = InputFile::open(path);
  if (!file) return file.failure();
  // Tensors begin with the length of their header, then '{'.
  std::array<std::uint8_t, 1> first{};
  if (file.value().size() > 0) {
    if (Status read = file.value().read_at(0, first); !read) return read.failure();
  }
  const bool json = path.extension() != ".safetensors" &&
                    (path.extension() == ".json" || first[0] == static_cast<std::uint8_t>('{'));
  if (!json) {
    if (Status read = amaxes.read_tensors(file.value()); !read) return read.failure();
    return amaxes;
  }
  const auto text = read_small_file(path, largest_json);
  if (!text) return text.failure();
  if (Status read = amaxes.read_json(text.value()); !read) return read.failure();
  return amaxes;
}

Result<const double*> InputAmaxes::find(std::string_view module) const {
  const auto found = numbers_.find(module);
  const double* none = nullptr;
  if (found == numbers_.end()) return none;
  const Number& number = found->second;
  std::string problem = number.problem;
  if (problem.empty() && !std::isfinite(number.amax)) problem = "is not finite";
  if (problem.empty() && number.amax < 0) problem = "is negative";
  if (problem.empty()) return &number.amax;
  return Failure{ErrorCode::bad_input,
                 fmt::format("quantize: the input scales '{}': {} {}", path_.string(),
                             in_quotes(number.name), problem)};
}

std::vector<std::string> InputAmaxes::strangers(
    const std::unordered_set<std::string>& modules) const {
  std::vector<std::string> names;
  for (const auto& [module, number] : numbers_) {
    if (modules.contains(module) || (is_checkpoint_ && !number.spelled)) continue;
    names.push_back(number.name);
  }
  return names;
}

std::string InputAmaxes::summary() const {
  if (numbers_.empty()) return "it has none at all";
  return fmt::format("its first name is {}", in_quotes(numbers_.begin()->first));
}

Result<InputScaleCounts> settle_input_amaxes(const InputAmaxes& amaxes,
                                             std::vector<ScaledInput>& inputs) {
  std::map<std::string, double> fused, experts;  // the largest
  const auto group_of = [](const ScaledInput& input) {
    return fused_group_of(input.module).value_or(input.module);
  };
  for (const ScaledInput& input : inputs) {
    for (const std::string& name : names_of(input)) {
      const auto amax = amaxes.find(name);
      if (!amax) return amax.failure();
      if (!amax.value()) continue;
      double& largest = fused[group_of(input)];
      largest = std::max(largest, *amax.value());
      if (const auto layer = siblings_of(input.module)) {
        experts[*layer] = std::max(experts[*layer], *amax.value());
      }
      break;
    }
  }
  InputScaleCounts counts;
  for (ScaledInput& input : inputs) {
    const auto own = fused.find(group_of(input));
    input.amax = own == fused.end() ? 0 : own->second;
    const bool missing = own == fused.end();
    if (input.amax == 0) {
      const auto layer = siblings_of(input.module);
      const auto others = layer ? experts.find(*layer) : experts.end();
      if (others != experts.end() && others->second > 0) {
        input.amax = others->second;
        ++counts.lent;
      }
    }
    ++counts.layers;
    if (input.amax > 0 && usable(input.amax)) continue;
    return Failure{
        ErrorCode::bad_input,
        fmt::format("quantize: the input scales '{}' {} for {}; calibrate it, or leave the layer "
                    "as it is with --ignore",
                    amaxes.path().string(),
                    missing           ? "have no number (" + amaxes.summary() + ")"
                    : input.amax == 0 ? "say 0"
                                      : fmt::format("say {}, beyond any scale,", input.amax),
                    in_quotes(input.module))};
  }
  return counts;
}

namespace {

// Numbers for modules that the model does not have: most likely a slip of the hand, which nothing
// else shows where an expert then borrows from its siblings.
void tell_strangers(ModelPlan& plan, const InputAmaxes& amaxes,
                    const std::vector<ScaledInput>& inputs) {
  std::unordered_set<std::string> modules;
  for (const ScaledInput& input : inputs) {
    for (std::string& name : names_of(input)) modules.insert(std::move(name));
  }
  for (const TensorTreatment& tensor : plan.tensors) {
    const std::string module(module_of(tensor.entry->name));
    for (std::string& name : names_of({module, module})) modules.insert(std::move(name));
  }
  const std::vector<std::string> names = amaxes.strangers(modules);
  if (names.empty()) return;
  plan.summary.notices.push_back(fmt::format(
      "the input scales '{}': {} of the numbers {} of no layer of the model, the first {}; check "
      "the spelling",
      amaxes.path().string(), names.size(), names.size() == 1 ? "is" : "are",
      in_quotes(names.front())));
}

}  // namespace

Status plan_input_scales(ModelPlan& plan, const std::filesystem::path& path) {
  const auto amaxes = InputAmaxes::open(path);
  if (!amaxes) return amaxes.failure();
  std::vector<ScaledInput> inputs;
  for (const ShardPlan& shard : plan.shards) {
    for (const QuantizedMatrix& matrix : shard.matrices) {
      if (!has_tensor_scale(matrix.format)) continue;
      const TensorEntry& entry = *plan.tensors[matrix.tensor].entry;
      inputs.push_back({matrix.slice.module, std::string(module_of(entry.name))});
    }
  }
  const auto counts = settle_input_amaxes(amaxes.value(), inputs);
  if (!counts) return counts.failure();
  std::size_t next = 0;
  for (ShardPlan& shard : plan.shards) {
    for (QuantizedMatrix& matrix : shard.matrices) {
      if (!has_tensor_scale(matrix.format)) continue;
      matrix.input_amax = inputs[next++].amax;
      if (plan.tensors[matrix.tensor].decision.treatment != Treatment::quantize) continue;
      plan.summary.tensors[matrix.tensor].input_amax = matrix.input_amax;
    }
  }
  if (counts.value().lent > 0) {
    plan.summary.notices.push_back(fmt::format(
        "{} of {} layers are experts without an input scale of their own, and get the largest "
        "that the same layer of their siblings has",
        counts.value().lent, counts.value().layers));
  }
  tell_strangers(plan, amaxes.value(), inputs);
  return success();
}

}  // namespace microscale
