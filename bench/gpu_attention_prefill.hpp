// Attention of many queries on the GPU at hand, the expansion of keys and values included, beside
// what its matrix units do in the same run.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cuda/device/device.hpp"
#include "gpu_matmul.hpp"
#include "microscale/format.hpp"
#include "result.hpp"

namespace microscale::cuda {

/// q, k and v alike.
struct PrefillCase {
  std::string name;
  std::optional<Format> format{};  // nvfp4 or mxfp4; absent: BF16
  std::int64_t batch = 1, length = 0, q_heads = 32, kv_heads = 32, d = 128;
  std::int64_t window = 0;
  bool causal = true;
  bool fp8 = false;  // mxfp4: in FP8, probabilities rounded to it
  double must_tflops = 0, stretch_tflops = 0;

  double operations() const;  ///< of both products, of the keys that are seen: half if causal
  double bytes() const;       ///< of q, k, v and a BF16 result, once
};

/// `quick`: so small that the times mean nothing.
std::vector<PrefillCase> gpu_prefill_cases(bool quick);

/// Of the last head, sampled queries against a host's, in units of the bound of docs/attention.md.
double prefill_error(Device& device, const PrefillCase& c);

/// As measure_attention (gpu_attention.hpp).
void measure_prefill(Device& device, const std::vector<PrefillCase>& cases,
                     const std::string& filter, const MatmulLimits& limits,
                     const bench::Watcher& watcher);

}  // namespace microscale::cuda
