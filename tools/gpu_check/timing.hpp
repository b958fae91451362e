// How long operations take on the GPU at hand, beside the copy bandwidth of the same run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cuda/device.hpp"
#include "equality.hpp"

namespace microscale::cuda {

struct Timing {
  std::string what;
  std::int64_t bytes =
      0;  // effective: input read once (twice where said), codes and scales written once
  double microseconds = 0;  // median
  double share = 0;         // of the copy bandwidth
  std::string problem;      // why it was not measured
};

struct Timings {
  double copy_bytes_per_second = 0;  // read and written, 512 MiB to 512 MiB
  std::vector<Timing> rows;
};

Timings measure(Device& device, Parts parts);

}  // namespace microscale::cuda
