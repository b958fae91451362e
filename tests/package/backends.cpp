// Prints what Backend::cuda says to memory of the host that is called a GPU's: which of what
// registers itself is linked.
#include <cstdint>
#include <cstdio>
#include <vector>

#include "microscale/error.hpp"
#include "microscale/quantize.hpp"

int main() {
  using namespace microscale;
  const std::vector<float> values(4 * 64, 1.5f);
  std::vector<std::uint8_t> codes(128), scales(8);
  try {
    const TensorView called_device = on_device(TensorView{values.data(), DType::f32, 4, 64, 64});
    quantize_into({.input = called_device, .format = Format::mxfp4}, codes, scales,
                  {.backend = Backend::cuda});
  } catch (const Error& error) {
    std::puts(error.what());
  }
}
