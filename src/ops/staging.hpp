// How an operation cuts a matrix into work items, and the copy through which a transposed matrix or
// a line with an incomplete last block reaches the kernels.
#pragma once

#include <cstdint>
#include <span>

#include "microscale/tensor.hpp"

namespace microscale {

/// A rectangle of lines x blocks.
struct WorkItem {
  std::int64_t line, lines, block, blocks;
};

/// Items of about 256 Ki elements each that cover all lines and blocks of a shape, in order. Lines
/// down the columns of a matrix are cut, so that an item has enough of them side by side.
class WorkGrid {
 public:
  WorkGrid(std::int64_t lines, std::int64_t blocks, int block_size, BlockAxis axis);
  std::int64_t count() const { return line_items_ * block_items_; }
  WorkItem item(std::int64_t index) const;

 private:
  std::int64_t lines_, blocks_, lines_per_item_ = 1, blocks_per_item_ = 1, line_items_ = 0,
                                block_items_ = 0;
};

/// Copies the elements of `item` (lines along `axis` of `input`) to rows of item.blocks *
/// block_size elements at `output`, zero beyond the end of a line.
void gather_lines(const TensorView& input, BlockAxis axis, const WorkItem& item, int block_size,
                  void* output);

/// The inverse: the part of `item` inside `output` is written from such rows.
void scatter_lines(const void* input, BlockAxis axis, const WorkItem& item, int block_size,
                   const MutableTensorView& output);

}  // namespace microscale
