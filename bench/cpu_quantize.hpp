// Quantize and dequantize on the CPU beside the limit of the same run: a loop that moves the same
// bytes in the same mix and computes nothing, timed in turn with the kernel.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace microscale::bench {

struct CpuOptions {
  std::size_t size = std::size_t{1} << 30;  // bytes of dense data: past every cache
  int runs = 7;                             // the median counts; one before them is not
  int threads = 0;                          // 0: all cores
  std::string filter;                       // only cases with this in their name
};

struct CpuTiming {
  std::string name;  // "bf16 to mxfp4 rceil"
  int threads = 0;
  double seconds = 0;  // median
  double dense_bytes = 0, packed_bytes = 0;
  double loop_seconds = 0;             // the limit: the same bytes, nothing computed
  double memcpy_bytes_per_second = 0;  // read and written
  double must = 0;                     // share of the loop to reach, one thread; 0: none was set

  double bytes_per_second() const { return (dense_bytes + packed_bytes) / seconds; }
  double share_of_loop() const { return loop_seconds / seconds; }
  double share_of_memcpy() const { return bytes_per_second() / memcpy_bytes_per_second; }
};

/// Times each case, and hands it over as soon as it is known. Throws Error{out_of_memory}.
void measure_cpu(const CpuOptions& options, const std::function<void(const CpuTiming&)>& take);

}  // namespace microscale::bench
