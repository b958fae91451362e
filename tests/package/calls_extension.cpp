#include <cstdio>
#include <vector>

#include "microscale/error.hpp"

extern "C" int quantized_bytes(const float* values, int rows, int cols);
void refuse_to_quantize();

int main() {
  const std::vector<float> values(4 * 64, 1.5f);
  const int bytes = quantized_bytes(values.data(), 4, 64);  // half a byte each, and a scale for 16
  const int refused = quantized_bytes(nullptr, 4, 64);
  bool caught = false;
  try {
    refuse_to_quantize();
  } catch (const microscale::Error& error) {
    caught = true;
    std::puts(error.what());
  }
  std::printf("%d bytes; %d without data\n", bytes, refused);
  return bytes == 4 * (32 + 4) && refused == -1 && caught ? 0 : 1;
}
