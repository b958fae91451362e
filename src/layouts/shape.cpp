// Sizes of block tensors, per layout.
#include <algorithm>
#include <new>
#include <string>

#include "core/memory_range.hpp"
#include "layouts/row_major.hpp"
#include "layouts/tiled_128x4.hpp"
#include "microscale/error.hpp"
#include "microscale/tensor.hpp"

namespace microscale {
namespace {

// So that no product below overflows.
void check_sizes(const BlockShape& shape) {
  const auto refuse = [&](ErrorCode code, const std::string& why) {
    throw Error(code, "BlockShape: a matrix of " + std::to_string(shape.rows) + " x " +
                          std::to_string(shape.cols) + why);
  };
  if (shape.rows < 0 || shape.cols < 0)
    refuse(ErrorCode::invalid_argument, "; rows and cols must not be negative");
  if (shape.axis > BlockAxis::rows || shape.layout > Layout::tiled_128x4)
    refuse(ErrorCode::invalid_argument,
           " with axis " + std::to_string(static_cast<int>(shape.axis)) + " and layout " +
               std::to_string(static_cast<int>(shape.layout)) +
               "; take enumerators of BlockAxis and Layout");
  const double rows = std::max(static_cast<double>(shape.rows), 1.0),
               cols = std::max(static_cast<double>(shape.cols), 1.0);
  const FormatInfo& format = info(shape.format);
  if (rows * cols * format.code_bits / 8 > addressable_bytes)
    refuse(ErrorCode::out_of_memory,
           " in " + std::string(format.name) +
               " is more than fits in memory; quantize fewer rows at a time");
}

}  // namespace

std::int64_t BlockShape::blocks_per_line() const {
  const int block = info(format).block;
  return (length() + block - 1) / block;
}

std::int64_t BlockShape::code_bytes_per_line() const {
  const FormatInfo& f = info(format);
  return microscale::code_bytes(f, blocks_per_line() * f.block);
}

std::int64_t BlockShape::code_bytes() const {
  check_sizes(*this);
  return lines() * code_bytes_per_line();
}

std::int64_t BlockShape::scale_bytes() const {
  check_sizes(*this);
  return layout == Layout::row_major ? row_major::bytes(lines(), blocks_per_line())
                                     : tiled_128x4::bytes(lines(), blocks_per_line());
}

BlockTensor::BlockTensor(const BlockShape& shape) : shape_(shape) {
  const std::int64_t code_bytes = shape.code_bytes(), scale_bytes = shape.scale_bytes();
  try {
    codes_.resize(static_cast<std::size_t>(code_bytes));
    scales_.resize(static_cast<std::size_t>(scale_bytes));
  } catch (const std::exception&) {
    throw Error(ErrorCode::out_of_memory,
                "BlockTensor: no memory for " + std::to_string(code_bytes + scale_bytes) +
                    " bytes of codes and scales; quantize fewer rows at a time");
  }
}

}  // namespace microscale
