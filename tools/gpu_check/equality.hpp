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

/// `quick`: a few shapes only (for runs under compute-sanitizer). `columns_only`: leaves out what
/// quantizes along rows alone.
EqualityTotals check_equality(Device& device, bool quick, bool columns_only);

}  // namespace microscale::cuda
