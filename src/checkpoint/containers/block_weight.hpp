// Weights whose codes and scales are those of one of our formats, whatever lies around them.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "checkpoint/containers/stored_weight.hpp"
#include "checkpoint/quantized_folder.hpp"

namespace microscale {

/// Whole blocks of codes and scales, as BlockTensor has them row by row, decoded into `out`.
void decode_blocks(const BlockCoding& coding, std::span<const std::uint8_t> codes,
                   std::span<const std::uint8_t> scales, DType dtype, void* out);

/// Decodes what read_blocks reads. Its values are BF16 where scales are powers of two (subnormal
/// ones below 2^-133 are rounded), else F32.
class BlockWeight : public StoredWeight {
 public:
  BlockWeight(WeightFacts facts, const BlockCoding& coding);
  const BlockCoding* blocks() const final { return &coding_; }
  Status decode(std::int64_t first, std::int64_t count, std::span<std::uint8_t> out) const override;
  Status read_blocks(std::int64_t first, std::int64_t count, std::span<std::uint8_t> codes,
                     std::span<std::uint8_t> scales) const override = 0;

 private:
  BlockCoding coding_;
};

/// BF16 or F32, as above.
StoredType value_type_of(Format format);

/// Codes and scales that lie row by row in the files; the first two parts of `facts`.
std::unique_ptr<StoredWeight> make_row_blocks(WeightFacts facts, const BlockCoding& coding,
                                              const ModelFolder& model);

/// A module of compressed-tensors or ModelOpt. Points into `model`, which must outlive it.
std::unique_ptr<StoredWeight> weight_of_module(const QuantizedModule& module,
                                               const ModelFolder& model);

}  // namespace microscale
