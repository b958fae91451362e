// Attention of few rows over a cache as it lies, on every architecture: one launch, whose blocks
// merge the parts of the keys as well.
#pragma once

#include <cstdint>
#include <string>

#include "cuda/attention/decode/args.hpp"
#include "cuda/attention/items.hpp"
#include "cuda/device/facts.hpp"

namespace microscale::cuda::attention::decode {

struct Plan {
  Items items;
  int width = 0;  // the kernel's d
  int shared_bytes = 0;
  std::int64_t partial_bytes = 0, workspace_bytes = 0;  // sums of parts; they and their flags
  Entry<AttentionMergedArgs> kernel;
  AttentionMergedArgs args{};  // without memory

  std::int64_t blocks() const {
    return items.count * (items.splits == 1 ? 1 : items.splits + items.merged_rows);
  }
};

/// Whether the cache's scales lie as the kernels read them, of 16 tokens in one piece.
bool takes_scales(const KvCache& cache);

/// Of a call with a dense q over a cache. Throws Error{unsupported} where no kernel serves it.
Plan plan_of(const DeviceFacts& facts, const AttentionCall& call);

/// "attention_decode_nvfp4_128_4, 8 items of 4 rows in 15 parts"
std::string describe(const Plan& plan);

/// Predicted cycles on Hopper of reading a cache for every run of 16 rows.
double cycles_of(const DeviceInfo& device, const AttentionCall& call);

/// A call of the plan's shapes. Throws Error where its memory lies otherwise than the plan needs.
void run(Device& device, const Plan& plan, const AttentionCall& call, std::uint8_t* workspace,
         Stream stream);

}  // namespace microscale::cuda::attention::decode
