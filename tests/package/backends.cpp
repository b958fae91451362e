// Prints what Backend::cuda says to memory of the host: which of what registers itself is linked.
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
    quantize_into({.input = {values.data(), DType::f32, 4, 64, 64}, .format = Format::mxfp4}, codes,
                  scales, {.backend = Backend::cuda});
  } catch (const Error& error) {
    std::puts(error.what());
  }
}
