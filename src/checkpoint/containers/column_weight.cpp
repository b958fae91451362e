#include "checkpoint/containers/column_weight.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "formats/integers.hpp"

namespace microscale {

ColumnWeight::ColumnWeight(WeightFacts facts)
    : StoredWeight(std::move(facts)),
      outputs_(this->facts().shape[2]),
      inputs_(this->facts().shape[1]) {}

std::int64_t ColumnWeight::line_of(std::int64_t element) const {
  return element / (inputs_ * outputs_) * outputs_ + element % outputs_;
}

std::int64_t ColumnWeight::input_of(std::int64_t element) const {
  return element / outputs_ % inputs_;
}

// A run of the dense tensor goes through all output features at one input feature. So the elements
// of a patch, all outputs x some inputs, are decoded line by line and put in their places.
Status ColumnWeight::decode(std::int64_t first, std::int64_t count,
                            std::span<std::uint8_t> out) const {
  const std::int64_t per_expert = inputs_ * outputs_;
  for (std::int64_t at = first, end = first + count; at < end;) {
    const std::int64_t expert = at / per_expert, input = at % per_expert / outputs_;
    const std::int64_t begin = input / align * align;
    const std::int64_t some = std::min(chunk, inputs_ - begin);
    const std::int64_t patch = (expert * inputs_ + begin) * outputs_;
    const std::int64_t stop = std::min(end, patch + some * outputs_);
    Status read = decode_patch(expert, begin, at, stop, out.data() - first * value_bytes());
    if (!read) return read;
    at = stop;
  }
  return success();
}

// Elements [at, stop) of the dense tensor, all of one expert and of at most `chunk` inputs from
// `begin` on, to where `tensor` would have them.
Status ColumnWeight::decode_patch(std::int64_t expert, std::int64_t begin, std::int64_t at,
                                  std::int64_t stop, std::uint8_t* tensor) const {
  const std::int64_t base = (expert * inputs_ + begin) * outputs_, size = value_bytes();
  const std::int64_t wanted = ceil_div(ceil_div(stop - base, outputs_), align) * align;
  const std::int64_t inputs = std::min(wanted, inputs_ - begin);
  alignas(float) std::array<std::uint8_t, chunk * sizeof(float)> values;
  for (std::int64_t output = 0; output < outputs_; ++output) {
    // The inputs whose element at this output is wanted.
    const std::int64_t low =
        at - base > output ? ceil_div(at - base - output, outputs_) : std::int64_t{0};
    const std::int64_t high = stop - base > output ? ceil_div(stop - base - output, outputs_) : 0;
    if (low >= high) continue;
    Status read = decode_line(expert * outputs_ + output, begin, inputs, values.data());
    if (!read) return read;
    std::uint8_t* to = tensor + (base + low * outputs_ + output) * size;
    for (std::int64_t input = low; input < high; ++input, to += outputs_ * size) {
      std::memcpy(to, values.data() + input * size, static_cast<std::size_t>(size));
    }
  }
  return success();
}

// Rows of a slice are output features, which are stored line after line.
Status ColumnWeight::read_tile(const MatrixSlice& slice, const Tile& tile,
                               std::span<std::uint8_t> out, std::span<std::uint8_t> scratch) const {
  if (slice.col_step != outputs_ || tile.col % align != 0) {
    return StoredWeight::read_tile(slice, tile, out, scratch);
  }
  const std::int64_t size = value_bytes();
  for (std::int64_t row = 0; row < tile.rows; ++row) {
    const std::int64_t element = slice.element(tile.row + row, tile.col);
    for (std::int64_t done = 0; done < tile.cols; done += chunk) {
      std::uint8_t* to = out.data() + (row * tile.cols + done) * size;
      Status read = decode_line(line_of(element), input_of(element) + done,
                                std::min(chunk, tile.cols - done), to);
      if (!read) return read;
    }
  }
  return success();
}

std::optional<BlockCoding> ColumnWeight::coding_of(const MatrixSlice& slice) const {
  if (slice.col_step != outputs_ || slice.cols != inputs_) return std::nullopt;
  return coding_of_lines();
}

Status ColumnWeight::read_block_tile(const MatrixSlice& slice, const Tile& tile,
                                     std::span<std::uint8_t> codes,
                                     std::span<std::uint8_t> scales) const {
  if (tile.elements() == 0) return success();
  const std::size_t row_codes = codes.size() / static_cast<std::size_t>(tile.rows);
  const std::size_t row_scales = scales.size() / static_cast<std::size_t>(tile.rows);
  for (std::int64_t row = 0; row < tile.rows; ++row) {
    const std::int64_t element = slice.element(tile.row + row, tile.col);
    const auto at = static_cast<std::size_t>(row);
    Status read =
        read_line(line_of(element), tile.col, tile.cols, codes.subspan(at * row_codes, row_codes),
                  scales.subspan(at * row_scales, row_scales));
    if (!read) return read;
  }
  return success();
}

}  // namespace microscale
