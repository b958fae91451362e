// Views of tensors [batch, tokens, heads, d] for attention and its cache: one row of d elements per
// token and head. Views own nothing.
#pragma once

#include <cstdint>

#include "microscale/tensor.hpp"

namespace microscale {

/// Dense. Element (b, t, h, i) is at b * batch_stride + t * token_stride + h * head_stride + i, so
/// a view can be a part of a fused projection, or of [batch, heads, tokens, d]. Strides are in
/// elements; 0 means packed: head_stride d, token_stride heads * head_stride, batch_stride tokens *
/// token_stride.
struct HeadsView {
  const void* data = nullptr;  ///< aligned to the element (Backend::cuda: to 16 bytes, rows too)
  DType dtype = DType::f32;
  std::int64_t batch = 1;
  std::int64_t tokens = 0;
  std::int64_t heads = 0;
  std::int64_t d = 0;
  std::int64_t token_stride = 0;
  std::int64_t head_stride = 0;
  std::int64_t batch_stride = 0;
  Memory memory = Memory::host;
};

/// As HeadsView, to be written.
struct MutableHeadsView {
  void* data = nullptr;
  DType dtype = DType::f32;
  std::int64_t batch = 1;
  std::int64_t tokens = 0;
  std::int64_t heads = 0;
  std::int64_t d = 0;
  std::int64_t token_stride = 0;
  std::int64_t head_stride = 0;
  std::int64_t batch_stride = 0;
  Memory memory = Memory::host;

  operator HeadsView() const {
    return {data, dtype, batch, tokens, heads, d, token_stride, head_stride, batch_stride, memory};
  }
};

/// [batch, tokens, heads, d] without gaps.
inline HeadsView packed(const void* data, DType dtype, std::int64_t batch, std::int64_t tokens,
                        std::int64_t heads, std::int64_t d, Memory memory = Memory::host) {
  return {data, dtype, batch, tokens, heads, d, 0, 0, 0, memory};
}
inline MutableHeadsView packed(void* data, DType dtype, std::int64_t batch, std::int64_t tokens,
                               std::int64_t heads, std::int64_t d, Memory memory = Memory::host) {
  return {data, dtype, batch, tokens, heads, d, 0, 0, 0, memory};
}

/// Block-scaled along d: what quantize_into makes of the packed tensor, taken as a matrix of batch
/// * tokens * heads rows and d columns, with row-major scales.
struct BlockHeadsView {
  BlockTensorView rows{};  ///< row (b * tokens + t) * heads + h
  std::int64_t batch = 1;
  std::int64_t tokens = 0;
  std::int64_t heads = 0;
};

}  // namespace microscale
