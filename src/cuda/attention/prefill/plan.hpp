// Attention of many queries on Hopper: keys and values of any type are expanded to FP16 once, in
// the workspace, then multiplied.
#pragma once

#include <cstdint>
#include <string>

#include "cuda/attention/items.hpp"
#include "cuda/attention/prefill/args.hpp"
#include "cuda/device/facts.hpp"

namespace microscale::cuda::attention::prefill {

struct Plan {
  Items items;
  bool fp8 = false;          // products in FP8
  std::int64_t k_bytes = 0;  // of expanded K
  std::int64_t workspace_bytes = 0;
  // Equal ones expand both in one launch.
  Entry<AttentionExpandArgs> expand_k, expand_v;
  Entry<AttentionPrefillArgs> kernel;
  AttentionExpandArgs expand{};  // without memory, as args
  AttentionPrefillArgs args{};
  std::int64_t blocks = 0;  // of the kernel
};

/// Queries and keys of every type that becomes FP16 exactly, or by a power of two per row or tile.
/// Throws Error{unsupported} for everything else.
Plan plan_of(const DeviceInfo& device, const AttentionCall& call);

/// "attention_expand_nvfp4_128, attention_prefill_128, 32 items of 128 rows, 32 blocks"
std::string describe(const Plan& plan);

/// Predicted cycles of a call that would be served if its formats are; infinity where it has more
/// tiles than can be numbered.
double cycles_of(const DeviceInfo& device, const AttentionCall& call);

/// A call of the plan's shapes. Throws Error where its memory lies otherwise than the plan needs.
void run(Device& device, const Plan& plan, const AttentionCall& call, std::uint8_t* workspace,
         Stream stream);

}  // namespace microscale::cuda::attention::prefill
