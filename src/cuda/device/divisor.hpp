// Division by numbers that the host knows, for kernels: two instructions instead of some twenty
// that wait for each other.
#pragma once

#include <cstdint>

#include "formats/host_device.hpp"

namespace microscale::cuda {

/// n / d for n from 0 to 2^31 - 1 as n * multiplier / 2^shift. With 2^shift at least 2^31 d,
/// rounding the multiplier up adds less than 1 / d to the quotient.
struct Divisor {
  std::uint32_t multiplier;
  std::int32_t shift;

  MICROSCALE_HD constexpr int divide(int n) const {
    return static_cast<int>(std::uint64_t{static_cast<std::uint32_t>(n)} * multiplier >> shift);
  }
};

/// d from 1 to 2^31 - 1.
constexpr Divisor divisor(std::int64_t d) {
  int log2 = 0;
  while (std::int64_t{1} << log2 < d) ++log2;
  const std::uint64_t unit = std::uint64_t{1} << (31 + log2);
  const auto by = static_cast<std::uint64_t>(d);
  return {static_cast<std::uint32_t>(unit / by + (unit % by != 0)), 31 + log2};
}

}  // namespace microscale::cuda
