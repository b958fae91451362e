// Views of dense and block-scaled tensors. Views own nothing; BlockTensor owns host memory.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "microscale/format.hpp"

namespace microscale {

/// Where block scales lie, given rows r (everything but the block axis) and scale columns c.
enum class Layout : std::uint8_t {
  row_major,    ///< offset r * scale_cols + c; what is on disk
  tiled_128x4,  ///< 512-byte tiles of 128 rows x 4 columns, zero-padded: what block-scaled MMAs
                ///< read
};

/// A dense matrix of `rows` x `cols`, batch folded into rows. Element (r, c) is at r * row_stride +
/// c.
struct TensorView {
  const void* data = nullptr;  ///< aligned to the element size; host memory (Backend::cuda: device)
  DType dtype = DType::f32;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t row_stride = 0;  ///< in elements; at least cols
};

/// As TensorView, to be written.
struct MutableTensorView {
  void* data = nullptr;
  DType dtype = DType::f32;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t row_stride = 0;
};

/// The axis along which elements share a scale. Codes and scales always lie with that axis
/// innermost: for `rows` (blocks down the columns of the matrix) they are those of the transposed
/// matrix.
enum class BlockAxis : std::uint8_t { cols, rows };

/// Sizes of a block tensor; `lines` run along the block axis, `length` elements each.
struct BlockShape {
  std::int64_t rows = 0;  ///< logical, of the dense matrix
  std::int64_t cols = 0;
  Format format = Format::mxfp4;
  BlockAxis axis = BlockAxis::cols;
  Layout layout = Layout::row_major;

  std::int64_t lines() const { return axis == BlockAxis::cols ? rows : cols; }
  std::int64_t length() const { return axis == BlockAxis::cols ? cols : rows; }
  std::int64_t blocks_per_line() const;      ///< the last block may be zero-padded
  std::int64_t code_bytes_per_line() const;  ///< whole blocks
  // These two throw Error: invalid_argument for negative sizes, out_of_memory for what no process
  // can address.
  std::int64_t code_bytes() const;
  std::int64_t scale_bytes() const;  ///< padding of the layout included
  bool operator==(const BlockShape&) const = default;
};

/// Codes, scales and global scales in memory that somebody else owns.
struct BlockTensorView {
  BlockShape shape;
  std::span<const std::uint8_t>
      codes;  ///< shape.code_bytes() bytes; even element in the low nibble
  std::span<const std::uint8_t> scales;  ///< shape.scale_bytes() bytes, in shape.layout
  float global_scale = 1.0f;             ///< NVFP4: decode multiplier (value = code * scale * this)
  const float* device_global_scale = nullptr;  ///< Backend::cuda, instead of global_scale
};

/// Owns its bytes on the host.
class BlockTensor {
 public:
  BlockTensor() = default;
  /// Allocates for `shape`, zero-filled. Throws Error{out_of_memory}, or as BlockShape does.
  explicit BlockTensor(const BlockShape& shape);

  const BlockShape& shape() const { return shape_; }
  std::span<std::uint8_t> codes() { return codes_; }
  std::span<const std::uint8_t> codes() const { return codes_; }
  std::span<std::uint8_t> scales() { return scales_; }
  std::span<const std::uint8_t> scales() const { return scales_; }
  float global_scale = 1.0f;  ///< NVFP4 decode multiplier

  BlockTensorView view() const { return {shape_, codes_, scales_, global_scale}; }

 private:
  BlockShape shape_;
  std::vector<std::uint8_t> codes_;
  std::vector<std::uint8_t> scales_;
};

}  // namespace microscale
