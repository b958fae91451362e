// Weights [experts, inputs, outputs] that are stored the other way round: whatever holds the inputs
// of an output feature one behind the other, the dense tensor has them in a column.
#pragma once

#include "checkpoint/containers/stored_weight.hpp"

namespace microscale {

class ColumnWeight : public StoredWeight {
 public:
  explicit ColumnWeight(WeightFacts facts);

  Status decode(std::int64_t first, std::int64_t count, std::span<std::uint8_t> out) const override;
  Status read_tile(const MatrixSlice& slice, const Tile& tile, std::span<std::uint8_t> out,
                   std::span<std::uint8_t> scratch) const override;
  std::optional<BlockCoding> coding_of(const MatrixSlice& slice) const override;
  Status read_block_tile(const MatrixSlice& slice, const Tile& tile, std::span<std::uint8_t> codes,
                         std::span<std::uint8_t> scales) const override;

 protected:
  static constexpr std::int64_t align = 32;    // elements: a multiple of every block
  static constexpr std::int64_t chunk = 8192;  // elements, a multiple of `align`

  std::int64_t outputs() const { return outputs_; }
  std::int64_t inputs() const { return inputs_; }

  /// Inputs [input, input + count) of the output feature `line`, counted through all experts, as
  /// facts().type; at most `chunk` of them, from a multiple of `align` on.
  virtual Status decode_line(std::int64_t line, std::int64_t input, std::int64_t count,
                             std::uint8_t* out) const = 0;
  /// What the blocks of all lines are coded in; nothing where they are none of our formats.
  virtual std::optional<BlockCoding> coding_of_lines() const = 0;
  /// Codes and scales of the same, whole blocks of any number.
  virtual Status read_line(std::int64_t line, std::int64_t input, std::int64_t count,
                           std::span<std::uint8_t> codes, std::span<std::uint8_t> scales) const = 0;

 private:
  std::int64_t line_of(std::int64_t element) const;
  std::int64_t input_of(std::int64_t element) const;
  Status decode_patch(std::int64_t expert, std::int64_t begin, std::int64_t at, std::int64_t stop,
                      std::uint8_t* tensor) const;

  std::int64_t outputs_, inputs_;
};

}  // namespace microscale
