// A plan of attention on a GPU, as the operation keeps it without knowing the GPU's kernels.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "seam/attention_call.hpp"

namespace microscale {

class GpuAttentionPlan {
 public:
  virtual ~GpuAttentionPlan() = default;
  virtual std::int64_t workspace_bytes() const = 0;
  virtual std::string describe() const = 0;
  /// A call of the same shapes, strides, types and formats as the plan's. Throws Error where its
  /// memory is not such as the plan needs.
  virtual void run(const AttentionCall& call, std::span<std::uint8_t> workspace,
                   void* stream) const = 0;
};

}  // namespace microscale
