// A four-layer gated MLP with NVFP4 weights and activations: each layer is two products, and what
// the first writes, codes and scales, is what the second reads. `build/example_nvfp4_mlp` prints
// the first outputs.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "microscale/matmul.hpp"
#include "microscale/quantize.hpp"

using namespace microscale;

int main() {
  constexpr std::int64_t tokens = 8, width = 256, hidden = 512, layers = 4;
  std::vector<float> x(tokens * width), numbers(hidden * width);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 37 % 101) / 50 - 1;
  const auto weights = [&](std::int64_t n, std::int64_t k) {  // made up, about 1 / sqrt(k) each
    for (float& v : numbers) v = static_cast<float>(std::rand() % 2001 - 1000) * 1e-4f;
    return quantize({.input = {numbers.data(), DType::f32, n, k, k}, .format = Format::nvfp4});
  };
  BlockTensor middle({tokens, hidden, Format::nvfp4});
  middle.global_scale = nvfp4_global_scale(8.0f);  // the largest magnitude expected
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const BlockTensor gate = weights(hidden, width), up = weights(hidden, width),
                      down = weights(width, hidden);
    const BlockTensor in =
        quantize({.input = {x.data(), DType::f32, tokens, width, width}, .format = Format::nvfp4});
    QuantizedOutput out{.format = Format::nvfp4, .global_scale = middle.global_scale};
    out.codes = middle.codes();
    out.scales = middle.scales();
    gated_matmul({.a = in.view(), .gate = gate.view(), .up = up.view(), .d = out});
    const MutableTensorView d{x.data(), DType::f32, tokens, width, width};
    matmul({.a = middle.view(), .b = down.view(), .d = d, .alpha = 2.0f});
  }
  for (int i = 0; i < 4; ++i)
    std::printf("%g ", static_cast<double>(x[static_cast<std::size_t>(i)]));
  std::printf("\n");
}
