#include "checkpoint/importance.hpp"

#include <fmt/format.h>

#include <cmath>
#include <unordered_set>

#include "checkpoint/json.hpp"
#include "checkpoint/tensor_name.hpp"
#include "checkpoint/weight_format.hpp"

namespace microscale {

Result<Importance> Importance::open(const std::filesystem::path& path, const ModelPlan& plan) {
  auto file = InputFile::open(path);
  if (!file) return file.failure();
  auto header = read_safetensors_header(file.value());
  if (!header) return header.failure();
  Importance importance(std::move(file.value()));
  std::unordered_map<std::string_view, const TensorEntry*> vectors;
  for (const TensorEntry& entry : header.value().tensors) vectors.emplace(entry.name, &entry);
  for (const ShardPlan& shard : plan.shards) {
    for (const QuantizedMatrix& matrix : shard.matrices) {
      if (!blocks_of(matrix.format)) continue;
      const auto found = vectors.find(matrix.slice.module);
      if (found == vectors.end()) continue;
      const TensorEntry& entry = *found->second;
      if (entry.type != StoredType::f32 ||
          entry.shape != std::vector<std::int64_t>{matrix.slice.cols}) {
        return Failure{
            ErrorCode::bad_input,
            fmt::format("quantize: importance {} in '{}' must be F32 of shape [{}], one number "
                        "for each input column",
                        in_quotes(entry.name), path.string(), matrix.slice.cols)};
      }
      importance.vectors_.emplace(entry.name, entry);
    }
  }
  if (importance.vectors_.empty()) {
    return Failure{
        ErrorCode::bad_input,
        fmt::format(
            "quantize: no tensor of '{}' has the name of a module to be quantized in blocks; name "
            "each as its module, without '.weight'",
            path.string())};
  }
  std::unordered_set<std::string_view> modules;
  for (const TensorTreatment& tensor : plan.tensors) modules.insert(module_of(tensor.entry->name));
  for (const TensorEntry& entry : header.value().tensors) {
    if (importance.has(entry.name) || modules.contains(entry.name)) continue;
    importance.idle_.push_back(entry.name);
  }
  return importance;
}

Status Importance::read(const std::string& module, std::int64_t col, std::span<float> out) const {
  const TensorEntry& entry = vectors_.at(module);
  const auto at = entry.begin + static_cast<std::uint64_t>(col) * sizeof(float);
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

}  // namespace microscale
