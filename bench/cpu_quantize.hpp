// Quantize and dequantize on the CPU beside the limit of the same run: a loop that moves the same
// bytes in the same mix and computes nothing, timed in turn with the kernel.
#pragma once

#include <cstddef>
#include <string>

#include "microscale/context.hpp"
#include "result.hpp"

namespace microscale::bench {

struct CpuOptions {
  std::size_t size = std::size_t{1} << 30;  // bytes of dense data: past every cache
  int runs = 7;                             // the median counts; one before them is not
  Context context;
  std::string filter;  // only cases with this in their name
};

/// Times each case. The limit of a row is the loop; its extras are the rates of memcpy, read and
/// written, and of the dense data alone, in GB/s. Throws Error{out_of_memory}.
void measure_quantize(const CpuOptions& options, const Watcher& watcher);

}  // namespace microscale::bench
