// Attention of many queries on compute capability 9.0: keys and values of any type are expanded to
// FP16 once, in the workspace, then multiplied (attention_prefill_args.hpp).
#pragma once

#include <cstdint>
#include <span>

#include "seam/attention_call.hpp"
#include "cuda/device/device.hpp"

namespace microscale::cuda {

/// Of Context::workspace. Throws Error{unsupported} where no kernel serves the call.
std::int64_t attention_prefill_workspace_bytes(Device& device, const AttentionCall& call);

/// Queries and keys of every type that becomes FP16 exactly or by a power of two per row or tile;
/// everything else is refused with the reason. Ordered by `stream`; allocates and waits for
/// nothing. Throws Error.
void attention_prefill(Device& device, const AttentionCall& call, std::span<std::uint8_t> workspace,
                       Stream stream);

/// Cycles that a call over a cache takes, by what docs/attention.md predicts; for the choice
/// between this and decoding. Infinite where it has too many tiles.
double attention_prefill_cycles(Device& device, const AttentionCall& call);

}  // namespace microscale::cuda
