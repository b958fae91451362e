// Sizes of block tensors, per layout.
#include <new>
#include <string>

#include "layouts/row_major.hpp"
#include "layouts/tiled_128x4.hpp"
#include "microscale/error.hpp"
#include "microscale/tensor.hpp"

namespace microscale {

std::int64_t BlockShape::blocks_per_line() const {
  const int block = info(format).block;
  return (length() + block - 1) / block;
}

std::int64_t BlockShape::code_bytes_per_line() const {
  const FormatInfo& f = info(format);
  return microscale::code_bytes(f, blocks_per_line() * f.block);
}

std::int64_t BlockShape::scale_bytes() const {
  return layout == Layout::row_major ? row_major::bytes(lines(), blocks_per_line())
                                     : tiled_128x4::bytes(lines(), blocks_per_line());
}

BlockTensor::BlockTensor(const BlockShape& shape) : shape_(shape) {
  constexpr std::int64_t addressable = std::int64_t{1} << 47;  // bytes, of a process on x86-64
  try {
    if (shape.code_bytes() > addressable) throw std::bad_alloc();
    codes_.resize(static_cast<std::size_t>(shape.code_bytes()));
    scales_.resize(static_cast<std::size_t>(shape.scale_bytes()));
  } catch (const std::exception&) {
    throw Error(ErrorCode::out_of_memory,
                "BlockTensor: no memory for " +
                    std::to_string(shape.code_bytes() + shape.scale_bytes()) +
                    " bytes of codes and scales; quantize fewer rows at a time");
  }
}

}  // namespace microscale
