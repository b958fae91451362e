#include "checkpoint/importance.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <unordered_set>

#include "checkpoint/json.hpp"
#include "checkpoint/tensor_name.hpp"
#include "checkpoint/weight_format.hpp"
#include "microscale/hessian.hpp"

namespace microscale {
namespace {

constexpr std::array methods{StatisticsMethod::automatic, StatisticsMethod::search,
                             StatisticsMethod::block_hessian, StatisticsMethod::gptq};
constexpr std::string_view hessian_suffix = ".hessian";

// What a file of statistics has beside a module's vector.
std::string_view without_suffix(std::string_view name) {
  for (const std::string_view suffix :
       {std::string_view(".mean"), std::string_view(".amax"), hessian_suffix})
    if (name.ends_with(suffix)) return name.substr(0, name.size() - suffix.size());
  return name;
}

Failure wrong_shape(const TensorEntry& entry, const InputFile& file, const std::string& shape,
                    const char* what) {
  return {ErrorCode::bad_input,
          fmt::format("quantize: importance {} in '{}' must be F32 of shape [{}], {}",
                      in_quotes(entry.name), file.path().string(), shape, what)};
}

// A budget may have led to formats that have no use for statistics once it is made.
bool has_no_blocks(const ModelPlan& plan) {
  const std::vector<WeightFormat> formats = formats_in(plan);
  return plan.summary.choice &&
         std::none_of(formats.begin(), formats.end(), [](WeightFormat f) { return blocks_of(f); });
}

bool is_f32(const TensorEntry& entry, const std::vector<std::int64_t>& shape) {
  return entry.type == StoredType::f32 && entry.shape == shape;
}

}  // namespace

std::string_view to_string(StatisticsMethod method) {
  switch (method) {
    case StatisticsMethod::automatic:
      return "auto";
    case StatisticsMethod::search:
      return "search";
    case StatisticsMethod::block_hessian:
      return "block-hessian";
    case StatisticsMethod::gptq:
      break;
  }
  return "gptq";
}

std::optional<StatisticsMethod> parse_statistics_method(std::string_view name) {
  for (const StatisticsMethod method : methods)
    if (to_string(method) == name) return method;
  return std::nullopt;
}

std::string statistics_method_names() {
  std::string names;
  for (const StatisticsMethod method : methods)
    names += (names.empty() ? "" : ", ") + std::string(to_string(method));
  return names;
}

std::string in_words(const StatisticsUse& use) {
  return fmt::format("{}, shrink {}, damping {}", to_string(use.method),
                     use.shrink ? fmt::format("{}", *use.shrink) : "by tokens", use.damping);
}

const std::string& Importance::owner_of(const std::string& module) const {
  const auto shared = metadata_.shares.find(module);
  return shared == metadata_.shares.end() ? module : shared->second;
}

Status Importance::add(const MatrixSlice& slice,
                       const std::unordered_map<std::string_view, const TensorEntry*>& tensors) {
  const std::int64_t cols = slice.cols;
  const std::string& owner = owner_of(slice.module);
  for (const std::string& name : {slice.module, owner}) {
    const auto found = tensors.find(name);
    if (found == tensors.end()) continue;
    if (!is_f32(*found->second, {cols}))
      return wrong_shape(*found->second, file_, std::to_string(cols),
                         "one number for each input column");
    vectors_.emplace(slice.module, found->second->begin);
  }
  const auto hessian = tensors.find(owner + std::string(hessian_suffix));
  if (hessian == tensors.end()) return success();
  if (!is_f32(*hessian->second, {cols, cols}))
    return wrong_shape(*hessian->second, file_, fmt::format("{}, {}", cols, cols),
                       "a row and a column for each input column");
  hessians_.emplace(owner, hessian->second->begin);
  return success();
}

// The sums are as good as means: ratios within a row count.
Result<Importance> Importance::of_imatrix(InputFile file, const Imatrix& imatrix,
                                          const ModelPlan& plan) {
  Importance importance(std::move(file));
  for (const ShardPlan& shard : plan.shards) {
    for (const QuantizedMatrix& matrix : shard.matrices) {
      if (!blocks_of(matrix.format)) continue;
      const auto begin = imatrix.find(matrix.slice.module, matrix.slice.cols);
      if (!begin) return begin.failure();
      if (begin.value()) importance.vectors_.emplace(matrix.slice.module, *begin.value());
    }
  }
  if (!importance.vectors_.empty() || has_no_blocks(plan)) return importance;
  return Failure{ErrorCode::bad_input,
                 fmt::format("quantize: no weight of the importance matrix '{}' is one of this "
                             "model that is quantized in blocks; llama.cpp's names are known of "
                             "llama, qwen2, qwen3, qwen3moe and gemma3",
                             importance.file_.path().string())};
}

Result<Importance> Importance::open(const std::filesystem::path& path, const ModelPlan& plan) {
  auto file = InputFile::open(path);
  if (!file) return file.failure();
  auto imatrix = Imatrix::open(file.value());
  if (!imatrix) return imatrix.failure();
  if (imatrix.value()) return of_imatrix(std::move(file.value()), *imatrix.value(), plan);
  auto header = read_safetensors_header(file.value());
  if (!header) return header.failure();
  Importance importance(std::move(file.value()));
  auto metadata = read_statistics_metadata(header.value().metadata);
  if (!metadata)
    return Failure{metadata.failure().code,
                   fmt::format("quantize: '{}': {}", path.string(), metadata.failure().message)};
  importance.metadata_ = std::move(metadata.value()).value_or(StatisticsMetadata());
  std::unordered_map<std::string_view, const TensorEntry*> tensors;
  for (const TensorEntry& entry : header.value().tensors) tensors.emplace(entry.name, &entry);
  std::unordered_set<std::string> known;
  for (const ShardPlan& shard : plan.shards) {
    for (const QuantizedMatrix& matrix : shard.matrices) {
      if (!blocks_of(matrix.format)) continue;
      if (Status added = importance.add(matrix.slice, tensors); !added) return added.failure();
      known.insert(matrix.slice.module);
      known.insert(importance.owner_of(matrix.slice.module));
    }
  }
  if (importance.vectors_.empty() && importance.hessians_.empty() && !has_no_blocks(plan)) {
    return Failure{
        ErrorCode::bad_input,
        fmt::format(
            "quantize: no tensor of '{}' has the name of a module to be quantized in blocks; name "
            "each as its module, without '.weight'",
            path.string())};
  }
  for (const TensorTreatment& tensor : plan.tensors)
    known.insert(std::string(module_of(tensor.entry->name)));
  for (const TensorEntry& entry : header.value().tensors) {
    if (known.contains(entry.name) || known.contains(std::string(without_suffix(entry.name))))
      continue;
    importance.idle_.push_back(entry.name);
  }
  return importance;
}

Status Importance::read(const std::string& module, std::int64_t col, std::span<float> out) const {
  const auto at = vectors_.at(module) + static_cast<std::uint64_t>(col) * sizeof(float);
  Status read = file_.read_at(at, {reinterpret_cast<std::uint8_t*>(out.data()), out.size_bytes()});
  if (!read) return read;
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (std::isfinite(out[i]) && out[i] >= 0) continue;
    return Failure{
        ErrorCode::bad_input,
        fmt::format("quantize: importance {} in '{}' is {} at column {}; it must be finite and "
                    "not negative",
                    in_quotes(module), file_.path().string(), out[i],
                    col + static_cast<std::int64_t>(i))};
  }
  return success();
}

const std::string* Importance::hessian_of(const std::string& module) const {
  const auto found = hessians_.find(owner_of(module));
  return found == hessians_.end() ? nullptr : &found->first;
}

Status Importance::read_hessian(const std::string& owner, std::span<float> out) const {
  return file_.read_at(hessians_.at(owner),
                       {reinterpret_cast<std::uint8_t*>(out.data()), out.size_bytes()});
}

std::optional<std::int64_t> Importance::tokens(const std::string& owner) const {
  const auto found = metadata_.tokens.find(owner);
  if (found == metadata_.tokens.end()) return std::nullopt;
  return found->second;
}

double Importance::reach(const std::string& module) const {
  std::int64_t most = 0;
  for (const auto& [owner, count] : metadata_.tokens) most = std::max(most, count);
  const auto own = tokens(owner_of(module));
  return own && most > 0 ? static_cast<double>(*own) / static_cast<double>(most) : 1;
}

double Importance::shrink(const std::string& owner, std::int64_t cols) const {
  return metadata_.shrunk ? 0 : hessian_shrink(tokens(owner).value_or(0), cols);
}

}  // namespace microscale
