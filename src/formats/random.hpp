// Random bits for stochastic rounding: a hash of (seed, element index), so neither thread count nor
// backend changes them. One 32-bit mix serves two neighbouring elements, 16 bits each.
#pragma once

#include <cstdint>

#include "formats/host_device.hpp"

namespace microscale {

/// A bijection of 32-bit words with good avalanche (two multiplies).
MICROSCALE_HD constexpr std::uint32_t mix32(std::uint32_t x) {
  x = (x ^ (x >> 16)) * 0x7FEB352Du;
  x = (x ^ (x >> 15)) * 0x846CA68Bu;
  return x ^ (x >> 16);
}

/// The key of one 2^33-element stretch; constant over almost every kernel.
MICROSCALE_HD constexpr std::uint32_t random_key(std::uint64_t seed, std::uint64_t index) {
  const auto high = static_cast<std::uint32_t>(index >> 33);
  return mix32(static_cast<std::uint32_t>(seed) ^
               mix32(static_cast<std::uint32_t>(seed >> 32) + 0x9E3779B9u * (high + 1)));
}

/// 16 uniform bits for element `index` (its position in the dense tensor, row-major).
MICROSCALE_HD constexpr std::uint32_t random16(std::uint64_t seed, std::uint64_t index) {
  const std::uint32_t word =
      mix32(static_cast<std::uint32_t>(index >> 1) ^ random_key(seed, index));
  return (index & 1u) ? word >> 16 : word & 0xFFFFu;
}

}  // namespace microscale
