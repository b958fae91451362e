// Tensors of a GGUF file whose bytes are not those of the dense tensor.
#pragma once

#include <vector>

#include "checkpoint/containers/gguf_plan.hpp"
#include "checkpoint/containers/stored_weight.hpp"

namespace microscale {

/// What its values are read as: the type of the file where that holds them as they are, else BF16
/// or F32, whichever holds them all.
StoredType gguf_value_type(const GgufSource& source);

class GgufWeight final : public StoredWeight {
 public:
  /// `source` has a decoder; `codes` is its tensor in a model made of the file (gguf_model.hpp).
  GgufWeight(GgufSource source, const ModelTensor& codes, const InputFile& file);

  Status decode(std::int64_t first, std::int64_t count, std::span<std::uint8_t> out) const override;
  void will_need(std::int64_t first, std::int64_t count) const override;

  /// Of MXFP4 and NVFP4. A scale of 0xFF, which only here is a number, cannot be read as a block.
  std::optional<BlockCoding> coding_of(const MatrixSlice& slice) const override;
  Status read_block_tile(const MatrixSlice& slice, const Tile& tile, std::span<std::uint8_t> codes,
                         std::span<std::uint8_t> scales) const override;

 private:
  GgufSource source_;
  const InputFile* file_;
};

}  // namespace microscale
