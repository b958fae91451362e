// A weight with adapters added, computed where it is read: W + factor * B A.
#pragma once

#include <memory>
#include <vector>

#include "checkpoint/containers/stored_weight.hpp"
#include "checkpoint/dense_view.hpp"
#include "checkpoint/lora_adapter.hpp"

namespace microscale {

/// Pairs of adapters, in the order in which they were named, and the files that hold them.
struct AddedPair {
  const LoraPair* pair = nullptr;
  const InputFile* file = nullptr;
};

/// Values are FP32: the sum of W and of all products, accumulated in FP64 and rounded once.
class MergedWeight final : public StoredWeight {
 public:
  /// `base` is a matrix of F32, BF16 or F16, or one of another container; pairs fit it. All that
  /// these point to must outlive this. `part`: the tensor of the model that the values come from.
  MergedWeight(const DenseTensor& base, const ModelTensor& part, std::vector<AddedPair> pairs);

  Status decode(std::int64_t first, std::int64_t count, std::span<std::uint8_t> out) const override;
  void will_need(std::int64_t first, std::int64_t count) const override;

 private:
  Status decode_rows(std::int64_t row, std::int64_t rows, std::int64_t col, std::int64_t cols,
                     std::span<std::uint8_t> out) const;

  DenseTensor base_;
  std::vector<AddedPair> pairs_;
};

/// Bytes that decode needs for each adapter, at most.
inline constexpr std::int64_t merging_bytes = std::int64_t{1} << 20;

/// Each as open_lora_adapter opens it.
Result<std::vector<LoraAdapter>> open_adapters(const std::vector<LoraUse>& uses);

/// A failure where the plan of `added` adapters has none of those that were asked for: of a
/// container that is made otherwise.
Status check_added(const std::vector<LoraAdapter>& added, const QuantizeModelOptions& options);

/// Adds the adapters to the view's tensors. Fails, naming the tensor and the shapes, where a pair
/// has no weight in the model that it fits. Gives one sentence for each adapter.
Result<std::vector<std::string>> merge_adapters(const std::vector<LoraAdapter>& adapters,
                                                const ModelFolder& model, DenseView& view);

}  // namespace microscale
