// A weight whose values are computed when they are read, from codes and scales in any container.
// With these a model looks like the dense one that it stands for: see dense_view.hpp.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/matrix_slice.hpp"
#include "checkpoint/model_folder.hpp"
#include "checkpoint/tile.hpp"
#include "core/result.hpp"
#include "microscale/format.hpp"

namespace microscale {

/// What is known of a stored weight before a value is read.
struct WeightFacts {
  std::string name;                 // of the dense tensor: "model.layers.0.mlp.up_proj.weight"
  std::vector<std::int64_t> shape;  // as the dense model has it
  /// BF16 or F32: the smaller one that holds every value, as its loaders compute it.
  StoredType type = StoredType::f32;
  std::string description;  // in words: "FP8 E4M3, one scale per 128 x 128 block"
  /// Everything that stands for the weight and is no tensor of the dense model; the codes first.
  std::vector<const ModelTensor*> parts;
  /// The values are stored as they are, in another order or with a number added: nothing was
  /// rounded to codes.
  bool exact = false;
  /// Codes lie across the dense tensor's rows, so that long pieces cost less than many short ones.
  bool transposed = false;
  StoredType copied = StoredType::bf16;  // what it is written as where it is kept
};

/// Codes that are those of one of our formats: value = code * (scale * multiplier), or, where
/// `divisor` is not 0, code * (scale / divisor), which differs in the last bit for some scale.
struct BlockCoding {
  Format format = Format::nvfp4;
  float multiplier = 1.0f;
  float divisor = 0.0f;
  bool operator==(const BlockCoding&) const = default;
};

/// Points into the files and headers of a ModelFolder, which must outlive it (and may be moved).
/// Every const member may be called from many threads at once and allocates nothing.
class StoredWeight {
 public:
  explicit StoredWeight(WeightFacts facts);
  virtual ~StoredWeight() = default;
  StoredWeight(const StoredWeight&) = delete;
  StoredWeight& operator=(const StoredWeight&) = delete;

  const WeightFacts& facts() const { return facts_; }
  const std::string& name() const { return facts_.name; }
  const ModelTensor& codes() const { return *facts_.parts.front(); }
  std::int64_t elements() const { return elements_; }
  int value_bytes() const { return facts_.type == StoredType::bf16 ? 2 : 4; }
  /// Of all parts, in the files.
  std::uint64_t bytes() const;

  /// Values [first, first + count) of the dense tensor in row-major order, as facts().type. `out`
  /// holds exactly these. NaN and infinite values are handed on.
  virtual Status decode(std::int64_t first, std::int64_t count,
                        std::span<std::uint8_t> out) const = 0;

  /// As microscale::read_tile, of values as facts().type.
  virtual Status read_tile(const MatrixSlice& slice, const Tile& tile, std::span<std::uint8_t> out,
                           std::span<std::uint8_t> scratch) const;

  /// A hint that these values will be wanted.
  virtual void will_need(std::int64_t first, std::int64_t count) const;

  /// Null where codes and scales are not those of one of our formats, block by block along the
  /// last dimension.
  virtual const BlockCoding* blocks() const { return nullptr; }

  /// Codes (low nibble: the even element) and scales of values [first, first + count), both
  /// multiples of the block, as BlockTensor has them row by row; without `codes` scales alone. Only
  /// where blocks() is not null.
  virtual Status read_blocks(std::int64_t first, std::int64_t count, std::span<std::uint8_t> codes,
                             std::span<std::uint8_t> scales) const;

  /// Of a matrix of the tensor whose rows are whole blocks: the tensor itself, an expert of many.
  /// Nothing where codes and scales are not those of one of our formats, or blocks run otherwise.
  virtual std::optional<BlockCoding> coding_of(const MatrixSlice& slice) const;

  /// As read_tile, of codes and scales: the tile row by row, as BlockTensor has it. It begins and
  /// ends at blocks. Without `codes`, of no bytes, scales alone are read. Only where coding_of
  /// gives a coding.
  virtual Status read_block_tile(const MatrixSlice& slice, const Tile& tile,
                                 std::span<std::uint8_t> codes,
                                 std::span<std::uint8_t> scales) const;

 private:
  WeightFacts facts_;
  std::int64_t elements_ = 1;
};

/// Values as another type, rounded to nearest: `from` holds BF16 or F32 (`from_bytes` 2 or 4).
void convert_values(std::span<const std::uint8_t> from, int from_bytes, DType to,
                    std::span<std::uint8_t> out);

}  // namespace microscale
