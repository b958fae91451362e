// A shared library with microscale inside: a function of C for callers who know nothing of it, and
// one that throws.
#include <exception>
#include <vector>

#include "microscale/quantize.hpp"

/// The bytes that `rows` x `cols` floats take as NVFP4; -1 where they cannot be quantized.
extern "C" int quantized_bytes(const float* values, int rows, int cols) try {
  using namespace microscale;
  const TensorView matrix{values, DType::f32, rows, cols, cols};
  const BlockTensor quantized = quantize({.input = matrix, .format = Format::nvfp4});
  return static_cast<int>(quantized.codes().size() + quantized.scales().size());
} catch (const std::exception&) {
  return -1;
}

void refuse_to_quantize() {
  microscale::quantize({.input = {nullptr, microscale::DType::f32, 4, 64, 64}});
}
