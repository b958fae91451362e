// Test data: matrices in every dense type, and what a block tensor decodes to.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "formats/half.hpp"
#include "microscale/quantize.hpp"
#include "reference/dense.hpp"

namespace microscale::test {

/// Owns a dense matrix of any type; values are rounded to the type.
struct Matrix {
  DType dtype;
  std::int64_t rows, cols;
  std::vector<std::uint8_t> bytes;

  Matrix(DType type, std::int64_t r, std::int64_t c)
      : dtype(type), rows(r), cols(c), bytes(static_cast<std::size_t>(r * c * size_of(type))) {}
  void set(std::int64_t r, std::int64_t c, float value) {
    store_dense(value, bytes.data(), dtype, r * cols + c);
  }
  float at(std::int64_t r, std::int64_t c) const {
    return load_dense(bytes.data(), dtype, r * cols + c);
  }
  TensorView view() const { return {bytes.data(), dtype, rows, cols, cols}; }
  MutableTensorView mutable_view() { return {bytes.data(), dtype, rows, cols, cols}; }
};

inline Matrix gaussian(DType type, std::int64_t rows, std::int64_t cols, unsigned seed = 1,
                       float sigma = 0.02f) {
  Matrix m(type, rows, cols);
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0f, sigma);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < cols; ++c) m.set(r, c, normal(generator));
  return m;
}

/// The dense values of a block tensor as FP32, by the reference backend.
inline Matrix decoded(const BlockTensorView& tensor) {
  Matrix m(DType::f32, tensor.shape.rows, tensor.shape.cols);
  dequantize(tensor, m.mutable_view(), {.backend = Backend::reference});
  return m;
}

/// Sum of squared errors over sum of squares.
inline double relative_mse(const Matrix& original, const Matrix& restored) {
  double error = 0, energy = 0;
  for (std::int64_t r = 0; r < original.rows; ++r)
    for (std::int64_t c = 0; c < original.cols; ++c) {
      const double x = original.at(r, c), e = x - restored.at(r, c);
      error += e * e;
      energy += x * x;
    }
  return error / energy;
}

}  // namespace microscale::test
