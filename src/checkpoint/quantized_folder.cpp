#include "checkpoint/quantized_folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>

#include "checkpoint/containers/containers.hpp"
#include "checkpoint/json.hpp"
#include "checkpoint/stray_weights.hpp"
#include "formats/elements.hpp"

namespace microscale {
namespace {

// What the parts of a module are called, in the order of Parts::tensors.
enum Part {
  packed,
  weight,
  scale,
  global_divisor,
  global_multiplier,
  input_divisor,
  input_multiplier,
  zero_point
};
constexpr std::array<std::string_view, 8> suffixes{".weight_packed",  ".weight",
                                                   ".weight_scale",   ".weight_global_scale",
                                                   ".weight_scale_2", ".input_global_scale",
                                                   ".input_scale",    ".weight_zero_point"};

struct Parts {
  std::array<const ModelTensor*, suffixes.size()> tensors{};
  const ModelTensor* operator[](Part part) const { return tensors[part]; }
  // A lone weight is a dense one, a lone input scale says nothing about weights.
  bool quantized() const {
    return tensors[packed] || tensors[scale] || tensors[global_divisor] ||
           tensors[global_multiplier];
  }
};

// In words, what codes and scales of these types are in the formats of others; empty: nothing
// known.
std::string foreign_scheme(StoredType codes, StoredType scales) {
  switch (scales) {
    case StoredType::f32:
    case StoredType::f16:
    case StoredType::bf16:
    case StoredType::f8_e8m0:
      break;
    default:
      return "";
  }
  const std::string with = fmt::format(" with scales of type {}", to_string(scales));
  switch (codes) {
    case StoredType::f8_e4m3:
    case StoredType::f8_e5m2:
      return "FP8" + with;
    case StoredType::i8:
      return "INT8" + with;
    case StoredType::u8:
    case StoredType::i32:
      return "packed integers" + with;
    default:
      return "";
  }
}

// Turns the parts of one module into a QuantizedModule, or says what keeps it from being one.
class ModuleSorter {
 public:
  ModuleSorter(QuantizedFolder& folder, const std::string& name, const Parts& parts)
      : folder_(folder),
        model_(folder.model),
        name_(name),
        parts_(parts),
        findings_(folder.unusable) {}

  std::optional<QuantizedModule> sort() {
    module_.name = name_;
    if (!find_format()) return std::nullopt;
    check_extras();
    check_shapes();
    if (info(module_.format).e8m0_scale) {
      if (parts_[global_divisor] || parts_[global_multiplier]) {
        const ModelTensor* extra =
            parts_[global_divisor] ? parts_[global_divisor] : parts_[global_multiplier];
        report(
            "extra-tensor", extra,
            fmt::format("{} has no global scale; remove this tensor", info(module_.format).name));
      }
    } else {
      take_global_scale();
    }
    if (!whole_) return std::nullopt;
    return module_;
  }

 private:
  void report(std::string_view rule, const ModelTensor* at, const std::string& text) {
    whole_ = false;
    const std::string file = at ? model_.shards[at->shard].name : "";
    findings_.push_back(make_finding(Severity::error, rule, file, at ? at->name() : name_, text));
  }

  bool find_format() {
    module_.codes = parts_[packed] ? parts_[packed] : parts_[weight];
    module_.scales = parts_[scale];
    if (!module_.codes) {
      const ModelTensor* orphan = parts_[scale]            ? parts_[scale]
                                  : parts_[global_divisor] ? parts_[global_divisor]
                                                           : parts_[global_multiplier];
      report("missing-codes", orphan,
             "belongs to a quantized module whose codes (weight_packed or weight) are missing; "
             "quantize "
             "the model again or remove this tensor");
      return false;
    }
    if (!module_.scales) {
      report("missing-scale", module_.codes,
             "its block scales (weight_scale) are missing; quantize the model again");
      return false;
    }
    const StoredType codes = module_.codes->entry->type, scales = module_.scales->entry->type;
    const bool e4m3_scales = scales == StoredType::f8_e4m3, byte_scales = scales == StoredType::u8;
    if (codes == StoredType::u8 && e4m3_scales) {
      module_.format = Format::nvfp4;
    } else if (codes == StoredType::u8 && byte_scales) {
      module_.format = Format::mxfp4;
    } else if (codes == StoredType::f8_e4m3 && byte_scales && !parts_[packed]) {
      module_.format = Format::mxfp8_e4m3;
    } else if (std::string scheme = foreign_scheme(codes, scales); !scheme.empty()) {
      folder_.foreign.push_back({name_, std::move(scheme), module_.codes});
      return false;
    } else {
      report(
          "unknown-format", module_.codes,
          fmt::format("codes of type {} with scales of type {} are no format known here (U8 with "
                      "F8_E4M3: NVFP4, U8 with U8: MXFP4, F8_E4M3 with U8: MXFP8)",
                      to_string(codes), to_string(scales)));
      return false;
    }
    return true;
  }

  void check_extras() {
    if (parts_[packed] && parts_[weight]) {
      report("extra-tensor", parts_[weight],
             "the module has weight_packed too, so which weight counts is unclear; remove one of "
             "them");
    }
    if (parts_[zero_point]) {
      report("extra-tensor", parts_[zero_point],
             "these formats are symmetric and have no zero points; remove this tensor");
    }
    module_.input_scale = parts_[input_divisor] ? parts_[input_divisor] : parts_[input_multiplier];
  }

  void check_shapes() {
    const FormatInfo& format = info(module_.format);
    const TensorEntry& codes = *module_.codes->entry;
    const TensorEntry& scales = *module_.scales->entry;
    if (codes.shape.size() != 2) {
      report("wrong-shape", module_.codes,
             fmt::format("codes of a linear weight have two dimensions, this is {}",
                         described(codes)));
      return;
    }
    module_.rows = codes.shape[0];
    module_.cols = codes.shape[1] * 8 / format.code_bits;
    if (module_.cols % format.block != 0) {
      report("wrong-shape", module_.codes,
             fmt::format(
                 "rows of {} elements are no multiple of the {} block of {}; quantize the model "
                 "again without this module",
                 module_.cols, format.name, format.block));
      return;
    }
    const std::vector<std::int64_t> wanted{module_.rows, module_.cols / format.block};
    if (scales.shape != wanted) {
      report(
          "wrong-shape", module_.scales,
          fmt::format(
              "the scales of a {} weight {} x {} are [{}], this is {}; quantize the model again",
              format.name, module_.rows, module_.cols, fmt::join(wanted, ", "), described(scales)));
    }
  }

  void take_global_scale() {
    module_.stores_divisor = parts_[packed] != nullptr;
    const Part own = module_.stores_divisor ? global_divisor : global_multiplier;
    const Part other = module_.stores_divisor ? global_multiplier : global_divisor;
    module_.global_scale = parts_[own];
    if (parts_[other]) {
      report("extra-tensor", parts_[other],
             fmt::format("beside {} the global scale is called {}; rename or "
                         "remove this tensor",
                         suffixes[parts_[packed] ? packed : weight].substr(1),
                         suffixes[own].substr(1)));
    }
    if (!module_.global_scale) {
      report("missing-global-scale", module_.codes,
             fmt::format("its NVFP4 global scale ({}) is missing; quantize the model again",
                         suffixes[own].substr(1)));
      return;
    }
    const TensorEntry& entry = *module_.global_scale->entry;
    const bool one = entry.shape.empty() || (entry.shape.size() == 1 && entry.shape[0] == 1);
    if (entry.type != StoredType::f32 || !one) {
      report("wrong-shape", module_.global_scale,
             fmt::format("a global scale is F32 [1], this is {}; quantize the model again",
                         described(entry)));
      return;
    }
    if (!folder_.planned) read_global_scale();
  }

  void read_global_scale() {
    std::array<std::uint8_t, 4> bytes{};
    const ModelShard& shard = model_.shards[module_.global_scale->shard];
    if (Status read = shard.file.read_at(module_.global_scale->entry->begin, bytes); !read) {
      report("unreadable", module_.global_scale, read.failure().message);
      return;
    }
    module_.stored_global = std::bit_cast<float>(bytes);
    module_.multiplier =
        module_.stores_divisor ? 1.0f / module_.stored_global : module_.stored_global;
    const auto usable = [](float value) { return value > 0 && std::isnormal(value); };
    if (!usable(module_.stored_global) || !usable(module_.multiplier)) {
      report("global-scale-value", module_.global_scale,
             fmt::format(
                 "the global scale is {}, not a positive normal number; quantize the model again",
                 module_.stored_global));
    }
    for (std::uint8_t scale = 1; scale <= E4M3::max_code && module_.stores_divisor; ++scale) {
      const float value = E4M3::decode(scale);
      module_.must_divide |= value / module_.stored_global != value * module_.multiplier;
    }
  }

  QuantizedFolder& folder_;
  const ModelFolder& model_;
  const std::string& name_;
  const Parts& parts_;
  Findings& findings_;
  QuantizedModule module_;
  bool whole_ = true;
};

std::map<std::string, Parts> collect_parts(const ContainerScan& scan) {
  std::map<std::string, Parts> modules;
  for (const ModelTensor& tensor : scan.model().tensors) {
    if (!scan.find(tensor.name())) continue;
    for (std::size_t part = 0; part < suffixes.size(); ++part) {
      if (!tensor.name().ends_with(suffixes[part])) continue;
      const std::string module =
          tensor.name().substr(0, tensor.name().size() - suffixes[part].size());
      modules[module].tensors[part] = &tensor;
      break;
    }
  }
  std::erase_if(modules, [](const auto& module) { return !module.second.quantized(); });
  return modules;
}

std::string module_of(std::string_view name) {
  for (const std::string_view suffix : suffixes) {
    if (name.ends_with(suffix)) return std::string(name.substr(0, name.size() - suffix.size()));
  }
  return std::string(name);
}

}  // namespace

const LogicalTensor* QuantizedFolder::find(std::string_view name) const {
  const auto exactly = [&](std::string_view wanted) -> const LogicalTensor* {
    const auto found =
        std::lower_bound(tensors.begin(), tensors.end(), wanted,
                         [](const LogicalTensor& a, std::string_view b) { return a.name < b; });
    return found != tensors.end() && found->name == wanted ? &*found : nullptr;
  };
  if (const LogicalTensor* tensor = exactly(name)) return tensor;
  if (const LogicalTensor* tensor = exactly(module_of(name) + ".weight")) return tensor;
  for (const auto& weight : weights) {
    for (const ModelTensor* part : weight->facts().parts) {
      if (part->name() == name) return exactly(weight->name());
    }
  }
  return nullptr;
}

std::vector<ForeignModule> QuantizedFolder::other_modules() const {
  std::vector<ForeignModule> others = foreign;
  for (const auto& weight : weights) {
    others.push_back({module_of(weight->name()), weight->facts().description, &weight->codes()});
  }
  return others;
}

Result<QuantizedFolder> sort_quantized_folder(ModelFolder model, bool planned, bool side_weights) {
  QuantizedFolder folder;
  folder.model = std::move(model);
  folder.planned = planned;
  if (side_weights && !planned) include_side_weights(folder.model);
  ContainerScan scan(folder.model, planned);
  find_stored_weights(scan);
  folder.weights = std::move(scan.weights);
  folder.unusable = std::move(scan.unusable);
  const auto parts = collect_parts(scan);
  for (const auto& [name, module_parts] : parts) {
    auto module = ModuleSorter(folder, name, module_parts).sort();
    if (module) folder.modules.push_back(std::move(*module));
  }
  std::vector<const ModelTensor*> used;
  for (const QuantizedModule& module : folder.modules) {
    for (const ModelTensor* part :
         {module.codes, module.scales, module.global_scale, module.input_scale}) {
      if (part) used.push_back(part);
    }
    folder.tensors.push_back(
        {module.name + ".weight", {module.rows, module.cols}, nullptr, &module});
  }
  for (const auto& weight : folder.weights) {
    folder.tensors.push_back(
        {weight->name(), weight->facts().shape, nullptr, nullptr, weight.get()});
  }
  std::sort(used.begin(), used.end());
  for (const ModelTensor& tensor : folder.model.tensors) {
    if (scan.taken(tensor) || std::binary_search(used.begin(), used.end(), &tensor)) continue;
    folder.tensors.push_back({tensor.name(), tensor.entry->shape, &tensor, nullptr});
  }
  std::sort(folder.tensors.begin(), folder.tensors.end(),
            [](const LogicalTensor& a, const LogicalTensor& b) { return a.name < b.name; });
  return folder;
}

Result<QuantizedFolder> open_quantized_folder(const std::filesystem::path& path) {
  auto model = open_model_folder(path);
  if (!model) return model.failure();
  return sort_quantized_folder(std::move(model.value()));
}

Result<QuantizedFolder> open_whole_quantized_folder(const std::filesystem::path& path) {
  auto folder = open_quantized_folder(path);
  if (folder && !folder.value().unusable.empty()) {
    const Findings& unusable = folder.value().unusable;
    const std::string more =
        unusable.size() > 1
            ? fmt::format(" (and {} more problems; run verify)", unusable.size() - 1)
            : "";
    return Failure{ErrorCode::bad_input,
                   fmt::format("'{}': {}{}", path.string(), unusable.front().message, more)};
  }
  if (folder && !folder.value().foreign.empty()) {
    const ForeignModule& module = folder.value().foreign.front();
    return Failure{ErrorCode::unsupported,
                   fmt::format("'{}': {} is {}, which is not decoded here; start from the "
                               "full-precision model",
                               path.string(), in_quotes(module.name), module.scheme)};
  }
  return folder;
}

}  // namespace microscale
