// Byte equality of backend cuda with the CPU, over every combination it offers.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "cuda/device.hpp"
#include "microscale/quantize.hpp"

namespace microscale::cuda {

struct EqualityTotals {
  std::int64_t calls = 0;  // compared
  std::int64_t elements = 0;
  std::vector<std::string> differences;  // the first few, in words
  std::int64_t failed = 0;               // calls that differ
  std::set<std::string> not_offered;     // "format, type, rule, rounding": refused as unsupported
};

/// What of quantize and dequantize is looked at: along rows alone; along columns and both axes.
struct Parts {
  bool rows = true, columns = true;
};

/// `quick`: a few shapes only (for runs under compute-sanitizer).
EqualityTotals check_equality(Device& device, bool quick, Parts parts);

}  // namespace microscale::cuda
