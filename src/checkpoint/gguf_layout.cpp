#include "checkpoint/gguf_layout.hpp"

#include <fmt/format.h>

#include <map>

#include "checkpoint/containers/gguf_pack.hpp"
#include "checkpoint/containers/gguf_plan.hpp"
#include "checkpoint/containers/gguf_writer.hpp"
#include "checkpoint/tensor_name.hpp"
#include "checkpoint/tile.hpp"

namespace microscale {
namespace {

class Layout {
 public:
  Layout(ModelPlan& plan, const GgufFile& file, const std::vector<const GgufTensor*>& tensors,
         const QuantizeModelOptions& options)
      : plan_(plan), file_(file), tensors_(tensors), options_(options) {}

  // The file that is written, and where in it every tile goes.
  Status lay_out() {
    std::vector<PlannedGgufTensor> tensors;
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      const GgufTensor& entry = *tensors_[i];
      const WeightFormat format = plan_.tensors[i].format;
      if (plan_.tensors[i].decision.treatment == Treatment::drop) continue;
      tensors.push_back(
          {entry.name, quantized(i) ? *gguf_type_of(format) : entry.type, entry.shape});
      if (quantized(i) && format == WeightFormat::nvfp4) {
        tensors.push_back(
            {gguf_scale_name(entry.name), GgufType::f32, {gguf_matrices(entry.shape)}});
      }
    }
    auto layout = plan_gguf_file(metadata(), file_.parts.front().header.alignment, tensors);
    if (!layout) {
      return Failure{
          layout.failure().code,
          fmt::format("quantize: '{}': {}", options_.output.string(), layout.failure().message)};
    }
    ShardPlan& output = plan_.shards.emplace_back();
    output.name = options_.output.empty() ? "model.gguf" : options_.output.filename().string();
    const GgufPlaces at = put_gguf_layout(output, std::move(layout.value()));
    plan_.tiles.resize(tensors_.size());
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      const std::string& name = tensors_[i]->name;
      const Treatment treatment = plan_.tensors[i].decision.treatment;
      if (treatment == Treatment::copy) output.copies.push_back({i, at.at(name)});
      if (treatment != Treatment::quantize) continue;
      const auto scales = at.find(gguf_scale_name(name));
      add_matrices(i, at.at(name), scales == at.end() ? 0 : scales->second);
    }
    return success();
  }

  Status sum_up() {
    ConversionPlan& summary = plan_.summary;
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      const GgufTensor& entry = *tensors_[i];
      const TensorTreatment& treatment = plan_.tensors[i];
      TensorPlan tensor;
      tensor.name = entry.name;
      tensor.dtype = info(entry.type).name;
      tensor.shape = entry.shape;
      tensor.treatment = treatment.decision.treatment;
      tensor.reason = treatment.decision.reason;
      tensor.file = plan_.shards.front().name;
      tensor.bytes_before = static_cast<std::int64_t>(entry.bytes());
      if (tensor.treatment == Treatment::copy) tensor.bytes_after = tensor.bytes_before;
      if (quantized(i)) {
        tensor.format = to_string(treatment.format);
        std::int64_t elements = 1;
        for (const std::int64_t dimension : entry.shape) elements *= dimension;
        tensor.bytes_after =
            static_cast<std::int64_t>(gguf_block_bytes(*gguf_type_of(treatment.format), elements));
        if (treatment.format == WeightFormat::nvfp4) {
          tensor.bytes_after += gguf_matrices(entry.shape) * std::int64_t{sizeof(float)};
        }
      }
      summary.bytes_before += tensor.bytes_before;
      summary.bytes_after += tensor.bytes_after;
      summary.tensors.push_back(std::move(tensor));
    }
    summary.disk_needed = static_cast<std::int64_t>(plan_.shards.front().layout.file_size);
    const auto free = free_space(options_.output);
    if (!free) return free.failure();
    summary.disk_free = static_cast<std::int64_t>(free.value());
    return success();
  }

 private:
  void add_matrices(std::size_t i, std::uint64_t codes_at, std::uint64_t scales_at) {
    const auto& shape = tensors_[i]->shape;
    ShardPlan& output = plan_.shards.front();
    const TensorTreatment& treatment = plan_.tensors[i];
    const GgufType type = *gguf_type_of(treatment.format);
    for (std::int64_t number = 0; number < gguf_matrices(shape); ++number) {
      QuantizedMatrix matrix;
      matrix.slice.module = treatment.verdict.module;
      matrix.slice.rows = shape[shape.size() - 2];
      matrix.slice.cols = matrix.slice.row_step = shape.back();
      const std::int64_t elements = matrix.slice.rows * matrix.slice.cols;
      matrix.slice.first = matrix.first_element = number * elements;
      matrix.slice.line = number * matrix.slice.rows;
      matrix.tensor = i;
      matrix.dtype = *dense_type(treatment.entry->type);
      matrix.format = treatment.format;
      matrix.first_tile = plan_.tiles[i];
      plan_.tiles[i] += TileGrid(matrix.slice.rows, matrix.slice.cols).count();
      matrix.at.codes =
          codes_at + static_cast<std::uint64_t>(number) * gguf_block_bytes(type, elements);
      matrix.at.global_scale = scales_at + static_cast<std::uint64_t>(number) * sizeof(float);
      if (matrix.format == WeightFormat::nvfp4) {
        matrix.group = plan_.groups.size();
        plan_.groups.push_back({{0, output.matrices.size()}});
      }
      output.matrices.push_back(std::move(matrix));
    }
  }

  GgufMetadata metadata() const {
    GgufMetadata metadata;
    for (const auto& [key, value] : file_.parts.front().header.metadata) metadata.set(key, value);
    for (const char* key : {"split.no", "split.count", "split.tensors.count"}) metadata.erase(key);
    metadata.set_u32("general.file_type", gguf_file_type(options_.format));
    metadata.set_u32("general.quantization_version", gguf_quantization_version);
    return metadata;
  }

  bool quantized(std::size_t i) const {
    return plan_.tensors[i].decision.treatment == Treatment::quantize;
  }

  ModelPlan& plan_;
  const GgufFile& file_;
  const std::vector<const GgufTensor*>& tensors_;
  const QuantizeModelOptions& options_;
};

}  // namespace

std::string gguf_scale_name(std::string_view weight) {
  return std::string(module_of(weight)) + ".scale";
}

std::uint32_t gguf_file_type(Format format) {
  constexpr std::uint32_t mostly_mxfp4 = 38, mostly_nvfp4 = 39;
  return format == Format::nvfp4 ? mostly_nvfp4 : mostly_mxfp4;
}

GgufPlaces put_gguf_layout(ShardPlan& output, GgufLayout layout) {
  GgufPlaces at;
  for (const GgufTensor& tensor : layout.tensors) {
    output.layout.tensors.push_back({tensor.name,
                                     StoredType::u8,
                                     {static_cast<std::int64_t>(tensor.bytes())},
                                     tensor.begin,
                                     tensor.end});
    at.emplace(tensor.name, tensor.begin);
  }
  output.layout.header = std::move(layout.header);
  output.layout.file_size = layout.file_size;
  return at;
}

Status lay_out_gguf(ModelPlan& plan, const GgufFile& file,
                    const std::vector<const GgufTensor*>& tensors,
                    const QuantizeModelOptions& options) {
  Layout layout(plan, file, tensors, options);
  if (Status laid_out = layout.lay_out(); !laid_out) return laid_out;
  return layout.sum_up();
}

}  // namespace microscale
