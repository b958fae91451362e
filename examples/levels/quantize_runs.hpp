// Quantizing levels: their buffers, their check against the CPU library, and the shipped kernel in
// the same clothes.
#pragma once

#include <memory>
#include <vector>

#include "harness.hpp"
#include "microscale/quantize.hpp"

namespace levels {

/// What is quantized, and how.
struct Problem {
  microscale::Format format;
  microscale::ScaleRule rule;
  microscale::DType input;
  std::int64_t rows, cols;
  bool tiled = false;

  microscale::BlockShape shape() const;
  std::int64_t input_bytes() const { return rows * cols * microscale::size_of(input); }
  std::int64_t bytes() const {
    return input_bytes() + shape().code_bytes() + shape().scale_bytes();
  }
};

inline constexpr float nvfp4_global = 2e-5f;  // decode multiplier of every NVFP4 run here

/// Numbers of a weight's size (normal, 0.02), or for checks every kind of finite number: random
/// bits, multiples of a quarter (which meet every tie), zeros and subnormals.
std::vector<std::uint8_t> weights(microscale::DType type, std::int64_t elements);
std::vector<std::uint8_t> every_kind(microscale::DType type, std::int64_t elements);

/// `count` inputs and outputs. Shared by the cases made of them.
struct Buffers {
  Buffers(const Problem& problem, int count);
  Args args(int set) const;
  Problem problem;
  std::vector<DeviceArray> inputs, codes, scales;
  DeviceArray global;
};
using SharedBuffers = std::shared_ptr<const Buffers>;
SharedBuffers buffers_for(const Problem& problem);  // enough to pass the cache
SharedBuffers buffers_for(const Problem& problem, int count);

Case level_case(const Level& level, const SharedBuffers& buffers);
/// The library's kernel, called as a program would call it.
Case shipped_case(const SharedBuffers& buffers);

/// Quantizes every_kind() on a few odd shapes and compares with the CPU library under the level's
/// rounding. Throws std::runtime_error naming the first byte that differs.
void check_level(const Level& level, microscale::Format format, microscale::ScaleRule rule);
/// The comparison by itself.
void compare(const std::string& name, const std::vector<std::uint8_t>& got,
             std::span<const std::uint8_t> want);

}  // namespace levels
