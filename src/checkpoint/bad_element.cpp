#include "checkpoint/bad_element.hpp"

#include <cstring>

namespace microscale {

// A NaN has bits beyond those of the exponent.
bool is_nan(const std::uint8_t* element, DType dtype) {
  if (dtype == DType::f32) {
    std::uint32_t bits;
    std::memcpy(&bits, element, 4);
    return (bits & 0x7FFFFFFFu) > 0x7F800000u;
  }
  std::uint16_t bits;
  std::memcpy(&bits, element, 2);
  return (bits & 0x7FFFu) > (dtype == DType::f16 ? 0x7C00u : 0x7F80u);
}

std::int64_t find_huge(std::span<const std::uint8_t> bytes, DType dtype) {
  if (dtype == DType::f16) return -1;
  const auto size = static_cast<std::size_t>(size_of(dtype));
  for (std::size_t at = 0; at < bytes.size(); at += size) {
    std::uint16_t bits;  // sign, exponent and what follows: the upper half of FP32
    std::memcpy(&bits, bytes.data() + at + size - 2, 2);
    if ((bits & 0x7F80u) == 0x7F00u) return static_cast<std::int64_t>(at / size);
  }
  return -1;
}

}  // namespace microscale
