// Between a kernel table's calls and a vector kernel: a kernel sees runs of consecutive blocks,
// whole groups of them, and leaves to the reference the rare blocks that it marks.
#pragma once

#include <cstdint>

#include "seam/kernel_table.hpp"

namespace microscale::cpu {

/// Consecutive blocks to quantize. `blocks` is a multiple of the kernel's group.
struct QuantizeRun {
  const QuantizeLines* call = nullptr;  // format, dtype, numerics and global scale alone
  const void* input = nullptr;
  const float* weights = nullptr;
  std::uint8_t* codes = nullptr;
  std::uint8_t* scales = nullptr;
  std::int64_t blocks = 0;
  bool stream = false;  // the codes are better written past the cache
};
using QuantizeKernel = void (*)(const QuantizeRun&);

/// Consecutive blocks of a line whose scales are there, to encode with stochastic rounding.
struct StochasticRun {
  const void* input = nullptr;
  const float* multipliers = nullptr;  // of elements, for each scale byte
  const std::uint8_t* scales = nullptr;
  std::uint8_t* codes = nullptr;
  std::int64_t blocks = 0;
  std::uint64_t first_index = 0;  // of the first element
  std::uint32_t index_step = 1;   // below 2^27
  std::uint32_t key = 0;          // random_key() of all of them
};
using StochasticKernel = void (*)(const StochasticRun&);

/// Calls `kernel` until all blocks of `call` are done. An incomplete group is copied to a buffer
/// and padded with zero blocks. Where elements are rounded stochastically, `kernel` rounds to
/// nearest, for the scales, and `stochastic` makes the codes.
void quantize_runs(const QuantizeLines& call, int group, QuantizeKernel kernel,
                   StochasticKernel stochastic);

/// Quantizes block first + i again, by the reference, for every bit i of `mask`.
void requantize(const QuantizeRun& run, std::int64_t first, std::uint64_t mask);

/// nvfp4_scale_factor, and e8m0_from_amax of MXINT8, for code that must not define them.
float nvfp4_factor(float global_scale);
std::uint8_t mxint8_scale(ScaleRule rule, float amax);

/// Consecutive blocks to decode. `steps` is what a code is multiplied by, for each scale byte.
struct DequantizeRun {
  const std::uint8_t* codes = nullptr;
  const std::uint8_t* scales = nullptr;
  const float* steps = nullptr;
  void* output = nullptr;
  std::int64_t blocks = 0;
  bool stream = false;
};
using DequantizeKernel = void (*)(const DequantizeRun&);

void dequantize_runs(const DequantizeLines& call, int group, DequantizeKernel kernel);

}  // namespace microscale::cpu
