// Matrix products on the CPU beside the limits of the same run: reading the same bytes, and
// multiplying out of registers.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cpu_limits.hpp"
#include "matmul_cases.hpp"
#include "microscale/context.hpp"
#include "result.hpp"

namespace microscale::bench {

struct CpuMatmulOptions {
  Context context;
  std::size_t rotate = std::size_t{256} << 20;  // bytes of weights before one comes round again
  int runs = 7;  // the median counts; four times as many for few rows
  std::string filter;
  bool brief = false;  // the loop of arithmetic, too short to mean anything
};

struct CpuMatmulLimits {
  int threads = 0;
  double read = 0;   // bytes a second, of `rotate` bytes
  Peak peak, codes;  // of FP4 by FP4, `codes`
};
/// Medians, for the heading of a table.
CpuMatmulLimits cpu_matmul_limits(const CpuMatmulOptions& options);

/// In turn with the product run a loop that reads the same weights on the same threads, and one of
/// arithmetic alone: the limit is the longer of the two, so what else the machine does hits all
/// three. With few rows the weights are rotated past the caches. Sampled elements are compared with
/// FP64 sums. Throws Error.
void measure_matmul(const std::vector<MatmulCase>& cases, const CpuMatmulOptions& options,
                    const CpuMatmulLimits& limits, const Watcher& watcher);

}  // namespace microscale::bench
