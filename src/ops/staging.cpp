#include "ops/staging.hpp"

#include <algorithm>
#include <cstring>

#include "formats/integers.hpp"
#include "seam/transpose.hpp"

namespace microscale {
namespace {

constexpr std::int64_t elements_per_item = 256 * 1024, longest_column = 2048,
                       streamed_elements = 32 * 1024;  // from which on they go past the caches

// Copies the valid part of `item`, `width` elements a row from element `first` of each line,
// zero-filled.
template <class T>
void gather(const TensorView& input, BlockAxis axis, const WorkItem& item, std::int64_t first,
            std::int64_t width, std::int64_t valid, T* output) {
  const T* data = static_cast<const T*>(input.data);
  if (axis == BlockAxis::rows)
    transpose(data + first * input.row_stride + item.line, input.row_stride, valid, item.lines,
              output, width, false);
  for (std::int64_t l = 0; l < item.lines; ++l) {
    T* row = output + l * width;
    if (axis == BlockAxis::cols)
      std::memcpy(row, data + (item.line + l) * input.row_stride + first,
                  static_cast<std::size_t>(valid) * sizeof(T));
    std::fill(row + valid, row + width, T{0});
  }
}

template <class T>
void scatter(const T* input, BlockAxis axis, const WorkItem& item, std::int64_t first,
             std::int64_t width, std::int64_t valid, const MutableTensorView& output) {
  T* data = static_cast<T*>(output.data);
  if (axis == BlockAxis::rows)
    return transpose(input, width, item.lines, valid, data + first * output.row_stride + item.line,
                     output.row_stride, item.lines * valid >= streamed_elements);
  for (std::int64_t l = 0; l < item.lines; ++l)
    std::memcpy(data + (item.line + l) * output.row_stride + first, input + l * width,
                static_cast<std::size_t>(valid) * sizeof(T));
}

}  // namespace

WorkGrid::WorkGrid(std::int64_t lines, std::int64_t blocks, int block_size, BlockAxis axis)
    : lines_(lines), blocks_(blocks) {
  if (lines == 0 || blocks == 0) return;
  const std::int64_t longest = axis == BlockAxis::rows ? longest_column : elements_per_item;
  blocks_per_item_ = std::min(blocks, longest / block_size);
  lines_per_item_ = std::max<std::int64_t>(1, elements_per_item / (blocks_per_item_ * block_size));
  line_items_ = ceil_div(lines, lines_per_item_);
  block_items_ = ceil_div(blocks, blocks_per_item_);
}

WorkItem WorkGrid::item(std::int64_t index) const {
  const std::int64_t line = index / block_items_ * lines_per_item_;
  const std::int64_t block = index % block_items_ * blocks_per_item_;
  return {line, std::min(lines_per_item_, lines_ - line), block,
          std::min(blocks_per_item_, blocks_ - block)};
}

void gather_lines(const TensorView& input, BlockAxis axis, const WorkItem& item, int block_size,
                  void* output) {
  const std::int64_t length = axis == BlockAxis::cols ? input.cols : input.rows;
  const std::int64_t first = item.block * block_size, width = item.blocks * block_size;
  const std::int64_t valid = std::min(width, length - first);
  if (size_of(input.dtype) == 4)
    gather(input, axis, item, first, width, valid, static_cast<std::uint32_t*>(output));
  else
    gather(input, axis, item, first, width, valid, static_cast<std::uint16_t*>(output));
}

void scatter_lines(const void* input, BlockAxis axis, const WorkItem& item, int block_size,
                   const MutableTensorView& output) {
  const std::int64_t length = axis == BlockAxis::cols ? output.cols : output.rows;
  const std::int64_t first = item.block * block_size, width = item.blocks * block_size;
  const std::int64_t valid = std::min(width, length - first);
  if (size_of(output.dtype) == 4)
    scatter(static_cast<const std::uint32_t*>(input), axis, item, first, width, valid, output);
  else
    scatter(static_cast<const std::uint16_t*>(input), axis, item, first, width, valid, output);
}

}  // namespace microscale
