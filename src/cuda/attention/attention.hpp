// Attention on device memory: choose a plan, check memory, run the plan. No arithmetic here.
// Ordered by `stream`; nothing is allocated or waited for once kernels are loaded.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "cuda/attention/plan.hpp"
#include "cuda/device/device.hpp"
#include "seam/attention_call.hpp"
#include "seam/attention_plan.hpp"

namespace microscale::cuda {

/// A call that check_attention has passed. `workspace`: attention_workspace_bytes of device memory.
/// Throws Error.
void attention(Device& device, const AttentionCall& call, std::span<std::uint8_t> workspace,
               Stream stream);
std::int64_t attention_workspace_bytes(Device& device, const AttentionCall& call);

/// A call of the plan's shapes, types and strides, in other memory. Throws Error.
void run_attention(Device& device, const AttentionPlan& plan, const AttentionCall& call,
                   std::span<std::uint8_t> workspace, Stream stream);

/// A plan for microscale::AttentionPlan, of a device that outlives it.
std::unique_ptr<GpuAttentionPlan> keep_attention_plan(Device& device, const AttentionCall& call);

}  // namespace microscale::cuda
