// Attention on the GPU at hand through the public interface, in graphs (gpu_timing.hpp), beside
// what its memory delivers in the same run.
#pragma once

#include <string>
#include <vector>

#include "cpu_attention.hpp"
#include "cuda/device/device.hpp"
#include "gpu_matmul.hpp"
#include "microscale/context.hpp"

namespace microscale::cuda {

/// What a GPU's results are compared with: FP64 sums. A CPU's own kernels round too much for the
/// bound of a GPU's: AMX probabilities, AVX-512 those of FP4 keys.
inline constexpr Backend attention_oracle = Backend::reference;

/// Of one call, as below.
double attention_error(Device& device, const bench::AttentionCase& c);

/// `quick`: so small that the times mean nothing.
std::vector<bench::AttentionCase> gpu_attention_cases(bool quick);

/// Caches, in device memory, are rotated past the L2. Of each case the query heads of one kv head
/// are compared with a host's, in units of the bound of docs/attention.md. A case that cannot run
/// says why in Result::problem.
void measure_attention(Device& device, const std::vector<bench::AttentionCase>& cases,
                       const std::string& filter, const MatmulLimits& limits,
                       const bench::Watcher& watcher);

}  // namespace microscale::cuda
