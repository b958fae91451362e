// Byte equality of backend cuda with the CPU, over every combination it offers.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "cuda/device/device.hpp"
#include "microscale/quantize.hpp"

namespace microscale::cuda {

struct EqualityTotals {
  std::int64_t calls = 0;  // compared
  std::int64_t elements = 0;
  std::vector<std::string> differences;  // the first few, in words
  std::int64_t failed = 0;               // calls that differ
  std::set<std::string> not_offered;     // "format, type, rule, rounding": refused as unsupported
};

/// How much of each kernel is looked at.
enum class Amount : std::uint8_t {
  full,   // by a GPU
  quick,  // a few shapes only, under compute-sanitizer
  least   // each kernel on a few odd shapes, by an emulator
};

struct Scope {
  Amount amount = Amount::full;
  std::vector<Format> formats{Format::mxfp4, Format::nvfp4, Format::mxfp8_e4m3, Format::mxfp8_e5m2};
  std::vector<DType> dtypes{DType::f32, DType::f16, DType::bf16};
};

/// What of quantize and dequantize is looked at: along rows alone; along columns and both axes.
struct Parts {
  bool rows = true, columns = true;
};

EqualityTotals check_equality(Device& device, const Scope& scope, Parts parts);

}  // namespace microscale::cuda
