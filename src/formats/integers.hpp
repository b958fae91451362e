// Division of integers, rounded up.
#pragma once

#include <cstdint>

#include "formats/host_device.hpp"

namespace microscale {

/// The least number of pieces of size b that cover a; a at least 0, b at least 1.
MICROSCALE_HD constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

/// The least multiple of b that is at least a.
MICROSCALE_HD constexpr std::int64_t round_up(std::int64_t a, std::int64_t b) {
  return ceil_div(a, b) * b;
}

}  // namespace microscale
