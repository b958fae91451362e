// Quantizes a matrix to NVFP4, takes it back and prints what that cost.
#include <cmath>
#include <cstdio>
#include <vector>

#include "microscale/error.hpp"
#include "microscale/quantize.hpp"

int main() try {
  using namespace microscale;
  const std::int64_t rows = 64, cols = 256;
  std::vector<float> values(rows * cols), back(rows * cols);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = std::sin(0.1f * i) * std::cos(0.003f * i);

  const TensorView matrix{values.data(), DType::f32, rows, cols, cols};
  const BlockTensor quantized = quantize({.input = matrix, .format = Format::nvfp4});
  dequantize(quantized.view(), {back.data(), DType::f32, rows, cols, cols});

  double error = 0, power = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    error += std::pow(values[i] - back[i], 2);
    power += std::pow(values[i], 2);
  }
  const std::size_t bytes = quantized.codes().size() + quantized.scales().size();
  std::printf("%zu bytes became %zu; relative squared error %.4f\n", values.size() * sizeof(float),
              bytes, error / power);
  return error / power < 0.02 ? 0 : 1;
} catch (const microscale::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
