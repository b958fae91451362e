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
};

struct CpuMatmulLimits {
  int threads = 0;
  double read = 0;  // bytes a second, of `rotate` bytes
  Peak peak;
};
CpuMatmulLimits cpu_matmul_limits(const CpuMatmulOptions& options);

/// Few rows: the weights are rotated past the caches, and a loop that reads the same bytes on the
/// same threads runs in turn with the product. Many rows: the peak of `limits` counts, where it is
/// more. Sampled elements are compared with FP64 sums. Throws Error.
void measure_matmul(const std::vector<MatmulCase>& cases, const CpuMatmulOptions& options,
                    const CpuMatmulLimits& limits, const Watcher& watcher);

}  // namespace microscale::bench
