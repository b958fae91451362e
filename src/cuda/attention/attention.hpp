// Attention on device memory: choose a plan, check memory, run the plan. A plan says which family
// of kernels attends, and all that its launches need but memory; its workspace is read off it. No
// arithmetic here. Ordered by `stream`; nothing is allocated or waited for once kernels are loaded.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>

#include "cuda/attention/block_scaled/plan.hpp"
#include "cuda/attention/decode/plan.hpp"
#include "cuda/attention/prefill/plan.hpp"
#include "cuda/device/device.hpp"
#include "cuda/device/facts.hpp"
#include "seam/attention_call.hpp"
#include "seam/attention_plan.hpp"

namespace microscale::cuda::attention {

struct Plan {
  std::variant<decode::Plan, prefill::Plan, block_scaled::Plan> family;

  std::int64_t items() const;  // 0: there is nothing to do
  std::int64_t workspace_bytes() const;
};

/// A function of the device's facts, and of the call's shapes, formats, strides and alignments:
/// device memory is not read. The call is one that check_attention passes. Throws
/// Error{unsupported} where no kernel serves it.
Plan choose(const DeviceFacts& facts, const AttentionCall& call);

/// "attention_decode_nvfp4_128_4, 8 items of 4 rows in 15 parts; workspace 253440 bytes": the
/// kernels in order, and how work is cut.
std::string describe(const Plan& plan);
std::string describe_kernels(const Plan& plan);  // without the workspace

/// A call that check_attention has passed. `workspace`: attention_workspace_bytes of device memory.
/// Throws Error.
void attend(Device& device, const AttentionCall& call, std::span<std::uint8_t> workspace,
            Stream stream);
std::int64_t workspace_bytes(Device& device, const AttentionCall& call);

/// A call of the plan's shapes, types and strides, in other memory. Throws Error.
void run(Device& device, const Plan& plan, const AttentionCall& call,
         std::span<std::uint8_t> workspace, Stream stream);

/// A plan for microscale::AttentionPlan, of a device that outlives it.
std::unique_ptr<GpuAttentionPlan> keep_plan(Device& device, const AttentionCall& call);

}  // namespace microscale::cuda::attention
