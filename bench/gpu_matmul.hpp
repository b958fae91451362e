// Matrix products on the GPU at hand through the public interface, in graphs (gpu_timing.hpp),
// beside what its memory delivers in the same run.
#pragma once

#include <string>
#include <vector>

#include "cuda/device/device.hpp"
#include "matmul_cases.hpp"
#include "result.hpp"

namespace microscale::cuda {

struct MatmulLimits {
  double copy = 0;  // bytes a second, read and written
  double read = 0;  // bytes a second of a kernel that only reads, or the copy if that is more
  // Operations a second of the matrix units alone; 0: there is no kernel that measures it here.
  double f16 = 0, fp8 = 0;
  double empty_node_seconds = 0;  // of a graph
  double launch_seconds = 0;      // of the calling thread, for a launch and nothing else
};
MatmulLimits matmul_limits(Device& device);

/// Weights, in device memory, are rotated past the L2; each time is that of a call in a graph of 16
/// or more. Host: what an eager call takes the calling thread, and one by a kept plan, where the
/// GPU takes little. Sampled elements are compared with FP64 sums. A case that cannot run says why
/// in Result::problem.
void measure_matmul(Device& device, const std::vector<bench::MatmulCase>& cases,
                    const std::string& filter, const MatmulLimits& limits,
                    const bench::Watcher& watcher);

}  // namespace microscale::cuda
