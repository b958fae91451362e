#include "checkpoint/dense_view.hpp"

#include <algorithm>

#include "checkpoint/classifier.hpp"
#include "checkpoint/containers/block_weight.hpp"

namespace microscale {
namespace {

std::uint64_t position(const DenseTensor& tensor) { return tensor.entry.begin; }

}  // namespace

Status DenseTensor::read(std::uint64_t at, std::span<std::uint8_t> out) const {
  if (!weight) return file->read_at(entry.begin + at, out);
  const std::int64_t size = weight->value_bytes();
  return weight->decode(static_cast<std::int64_t>(at) / size,
                        static_cast<std::int64_t>(out.size()) / size, out);
}

Status DenseTensor::read_tile(const MatrixSlice& slice, const Tile& tile,
                              std::span<std::uint8_t> out, std::span<std::uint8_t> scratch) const {
  if (weight) return weight->read_tile(slice, tile, out, scratch);
  return microscale::read_tile(*file, entry.begin, slice, tile, bits_per_element(entry.type) / 8,
                               out, scratch);
}

void DenseTensor::will_need(const MatrixSlice& slice, const Tile& tile) const {
  const ByteRange range = tile_range(0, slice, tile, 1);  // in elements
  if (weight) {
    weight->will_need(static_cast<std::int64_t>(range.begin),
                      static_cast<std::int64_t>(range.length));
    return;
  }
  const auto size = static_cast<std::uint64_t>(bits_per_element(entry.type) / 8);
  file->will_need(entry.begin + range.begin * size, range.length * size);
}

StoredType copied_type(const DenseTensor& tensor) {
  return tensor.weight ? tensor.weight->facts().copied : tensor.entry.type;
}

std::uint64_t copied_bytes(const DenseTensor& tensor) {
  if (!tensor.weight) return tensor.entry.bytes();
  const int bits = bits_per_element(copied_type(tensor));
  return static_cast<std::uint64_t>(tensor.weight->elements() * bits / 8);
}

Status read_copied(const DenseTensor& tensor, std::uint64_t at, std::span<std::uint8_t> out,
                   std::vector<std::uint8_t>& values) {
  const StoredType type = copied_type(tensor);
  if (!tensor.weight || tensor.entry.type == type) return tensor.read(at, out);
  values.resize(std::max(values.size(), out.size() * 2));
  const auto wide = std::span(values).first(out.size() * 2);
  if (Status read = tensor.read(at * 2, wide); !read) return read;
  convert_values(wide, 4, *dense_type(type), out);
  return success();
}

const DenseTensor* DenseView::find(std::string_view name) const {
  const auto found = by_name.find(name);
  return found == by_name.end() ? nullptr : found->second;
}

std::vector<const TensorEntry*> DenseView::entries() const {
  std::vector<const TensorEntry*> entries;
  for (const DenseTensor& tensor : tensors) entries.push_back(&tensor.entry);
  return entries;
}

DenseView dense_view_of(QuantizedFolder& folder) {
  DenseView view;
  const auto add_weight = [&](const StoredWeight& weight) {
    const ModelTensor& codes = weight.codes();
    const auto bytes = static_cast<std::uint64_t>(weight.elements() * weight.value_bytes());
    view.tensors.push_back({codes.shard,
                            {weight.name(), weight.facts().type, weight.facts().shape,
                             codes.entry->begin, codes.entry->begin + bytes},
                            &folder.model.shards[codes.shard].file,
                            &weight});
  };
  for (const LogicalTensor& tensor : folder.tensors) {
    if (tensor.module) {
      view.weights.push_back(weight_of_module(*tensor.module, folder.model));
      add_weight(*view.weights.back());
    } else if (tensor.weight) {
      add_weight(*tensor.weight);
    } else {
      view.tensors.push_back({tensor.stored->shard, *tensor.stored->entry,
                              &folder.model.shards[tensor.stored->shard].file, nullptr});
    }
  }
  view.unusable = folder.unusable;
  for (auto& weight : folder.weights) view.weights.push_back(std::move(weight));
  folder.weights.clear();
  std::stable_sort(view.tensors.begin(), view.tensors.end(),
                   [](const DenseTensor& a, const DenseTensor& b) {
                     return a.shard != b.shard ? a.shard < b.shard : position(a) < position(b);
                   });
  for (const DenseTensor& tensor : view.tensors) view.by_name.emplace(tensor.entry.name, &tensor);
  return view;
}

}  // namespace microscale
