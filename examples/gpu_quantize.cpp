// Quantizes a matrix to NVFP4 on a GPU: the same bytes as on the CPU.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "microscale/cuda.hpp"
#include "microscale/device_buffer.hpp"
#include "microscale/quantize.hpp"

int main() try {
  using namespace microscale;
  const std::int64_t rows = 64, cols = 256;
  std::vector<float> values(rows * cols);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(0.1f * i);

  const BlockShape shape{.rows = rows, .cols = cols, .format = Format::nvfp4};
  const DeviceBuffer input = DeviceBuffer::copy_of(std::span(values)), codes(shape.code_bytes()),
                     scales(shape.scale_bytes()), global(sizeof(float));
  quantize_into({.input = packed(input.data(), DType::f32, rows, cols, Memory::device),
                 .computed_global_scale = global.as<float>()},
                codes.bytes(), scales.bytes());  // device memory, so Backend::cuda runs it

  std::vector<std::uint8_t> got(codes.bytes().size());
  codes.copy_to(std::span(got));
  const BlockTensor wanted = quantize({.input = packed(values.data(), DType::f32, rows, cols)});
  const bool same = std::ranges::equal(got, wanted.codes());
  std::printf("%s: %zu bytes of codes, %s\n", cuda::device_name().c_str(), got.size(),
              same ? "as on the CPU" : "other than on the CPU");
  return same ? 0 : 1;
} catch (const microscale::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
