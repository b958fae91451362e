// Matrix products on the CPU beside the limits of the same run: reading the same bytes, and, where
// the processor has it, a loop of matrix instructions and nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "microscale/context.hpp"

namespace microscale::bench {

struct MatmulTiming {
  std::string name;
  int threads = 0;
  double seconds = 0;       // median of the runs
  double operations = 0;    // 2 m n k
  double bytes = 0;         // weights and scales, each once
  double read_seconds = 0;  // a loop that reads the same bytes on the same threads
  double worst_error = 0;   // of sampled elements, in units of the documented bound
};

struct MatmulBenchOptions {
  Context context;
  std::size_t rotate = std::size_t{256} << 20;  // bytes of weights before one comes round again
  int runs = 7;
  std::string filter;
};

/// Every case whose name contains the filter; `take` gets each when it is done. Throws Error.
void measure_matmul(const MatmulBenchOptions& options,
                    const std::function<void(const MatmulTiming&)>& take);

/// Operations per second of BF16 tile products from registers, on `threads` threads; 0 without AMX.
double amx_peak(int threads);

}  // namespace microscale::bench
