// Views of dense and block-scaled tensors. Views own nothing; BlockTensor owns host memory.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "microscale/format.hpp"
#include "microscale/global_scale.hpp"
#include "microscale/memory.hpp"

namespace microscale {

/// How block scales lie: r is the row (everything but the block axis), c the block in it.
enum class Layout : std::uint8_t {
  row_major,    ///< offset r * scale_cols + c; what is on disk
  tiled_128x4,  ///< 512-byte tiles of 128 rows x 4 columns, zero-padded: what block-scaled MMAs
                ///< read
};

/// A dense matrix of `rows` x `cols`; a batch is folded into the rows. Element (r, c) is at r *
/// row_stride + c.
struct TensorView {
  const void* data = nullptr;  ///< aligned to the element size
  DType dtype = DType::f32;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t row_stride = 0;  ///< in elements, at least cols; 0: packed, as cols
  Memory memory = Memory::host;
};

/// As TensorView, to be written.
struct MutableTensorView {
  void* data = nullptr;
  DType dtype = DType::f32;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t row_stride = 0;
  Memory memory = Memory::host;

  operator TensorView() const { return {data, dtype, rows, cols, row_stride, memory}; }
};

/// A matrix whose rows lie side by side.
inline TensorView packed(const void* data, DType dtype, std::int64_t rows, std::int64_t cols,
                         Memory memory = Memory::host) {
  return {data, dtype, rows, cols, cols, memory};
}
inline MutableTensorView packed(void* data, DType dtype, std::int64_t rows, std::int64_t cols,
                                Memory memory = Memory::host) {
  return {data, dtype, rows, cols, cols, memory};
}

/// The axis along which elements share a scale. Codes and scales lie with that axis innermost: for
/// `rows` (blocks down the columns of the matrix) they are those of the transposed matrix.
enum class BlockAxis : std::uint8_t { cols, rows };

/// Shape and sizes of a block tensor. Lines run along the block axis and have `length` elements.
struct BlockShape {
  std::int64_t rows = 0;  ///< logical, of the dense matrix
  std::int64_t cols = 0;
  Format format = Format::nvfp4;
  BlockAxis axis = BlockAxis::cols;
  Layout layout = Layout::row_major;

  std::int64_t lines() const { return axis == BlockAxis::cols ? rows : cols; }
  std::int64_t length() const { return axis == BlockAxis::cols ? cols : rows; }
  std::int64_t blocks_per_line() const;      ///< the last one may be padded with zeros
  std::int64_t code_bytes_per_line() const;  ///< whole blocks
  // These two throw Error: invalid_argument for negative sizes, out_of_memory for more bytes than a
  // process can address.
  std::int64_t code_bytes() const;
  std::int64_t scale_bytes() const;  ///< padding of the layout included
  bool operator==(const BlockShape&) const = default;
};

/// Codes, scales and global scale of a block tensor. Owns nothing.
struct BlockTensorView {
  BlockShape shape;
  std::span<const std::uint8_t>
      codes{};  ///< shape.code_bytes() bytes; even element in the low nibble
  std::span<const std::uint8_t> scales{};  ///< shape.scale_bytes() bytes, in shape.layout
  GlobalScale global_scale = 1.0f;         ///< NVFP4
  Memory memory = Memory::host;            ///< of codes and scales
};

/// A block tensor of `shape` at two addresses, which need not be aligned on the host and start at
/// multiples of 16 on Backend::cuda. Throws Error for sizes that are negative.
inline BlockTensorView packed(const BlockShape& shape, const std::uint8_t* codes,
                              const std::uint8_t* scales, const GlobalScale& global_scale = 1.0f,
                              Memory memory = Memory::host) {
  return {shape,
          {codes, static_cast<std::size_t>(shape.code_bytes())},
          {scales, static_cast<std::size_t>(shape.scale_bytes())},
          global_scale,
          memory};
}

/// A block tensor that owns its bytes, in host memory.
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

  BlockTensorView view() const { return {shape_, codes_, scales_, global_scale, Memory::host}; }

 private:
  BlockShape shape_;
  std::vector<std::uint8_t> codes_;
  std::vector<std::uint8_t> scales_;
};

}  // namespace microscale
