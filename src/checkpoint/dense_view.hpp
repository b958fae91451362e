// A model in any container as the dense model that it stands for: tensors with name, value type and
// shape, in the shards that hold them or their codes, read through one door. What is stored dense
// comes from the file, everything else is computed on the way.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "checkpoint/containers/stored_weight.hpp"
#include "checkpoint/matrix_slice.hpp"
#include "checkpoint/model_folder.hpp"
#include "checkpoint/quantized_folder.hpp"
#include "checkpoint/tile.hpp"

namespace microscale {

struct DenseTensor {
  std::size_t shard = 0;  // that holds it, or its codes
  /// As a dense file would have it; bytes() counts values. Only `file` with weight == null has them
  /// at entry.begin.
  TensorEntry entry;
  const InputFile* file = nullptr;
  const StoredWeight* weight = nullptr;  // null: stored as it is

  /// Of what stands for it, in the files.
  std::uint64_t stored_bytes() const { return weight ? weight->bytes() : entry.bytes(); }

  /// Bytes from `at` on of the dense tensor; `at` and the length are whole elements.
  Status read(std::uint64_t at, std::span<std::uint8_t> out) const;
  /// As microscale::read_tile; the elements are of F32, BF16 or F16.
  Status read_tile(const MatrixSlice& slice, const Tile& tile, std::span<std::uint8_t> out,
                   std::span<std::uint8_t> scratch) const;
  /// A hint that the tile will be read.
  void will_need(const MatrixSlice& slice, const Tile& tile) const;
};

/// What a tensor that is kept is written as: computed weights as their facts say (BF16, which
/// engines compute with; with an adapter added as before), all others as they are.
StoredType copied_type(const DenseTensor& tensor);
std::uint64_t copied_bytes(const DenseTensor& tensor);
/// Bytes from `at` on of the tensor as that, whole elements; `values` is grown as needed.
Status read_copied(const DenseTensor& tensor, std::uint64_t at, std::span<std::uint8_t> out,
                   std::vector<std::uint8_t>& values);

struct DenseView {
  std::deque<DenseTensor> tensors;  // in the order of the shards, and within each by position
  std::vector<std::unique_ptr<StoredWeight>> weights;  // that tensors point to
  std::vector<std::unique_ptr<StoredWeight>> merged;   // the same, with adapters added
  Findings unusable;                                   // of the folder

  /// Codes of some weight are not those of a dense model.
  bool computed() const { return !weights.empty(); }
  /// Null when the dense model has no such tensor.
  const DenseTensor* find(std::string_view name) const;
  std::vector<const TensorEntry*> entries() const;

  std::unordered_map<std::string_view, const DenseTensor*> by_name;
};

/// What `folder` stands for. Takes its weights; `folder.model` must outlive the view, and may be
/// moved.
DenseView dense_view_of(QuantizedFolder& folder);

}  // namespace microscale
