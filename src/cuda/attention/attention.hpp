// Attention on device memory: which calls there are kernels for, and their launches.
#pragma once

#include <cstdint>
#include <span>

#include "cuda/device/device.hpp"
#include "seam/attention_call.hpp"

namespace microscale::cuda {

/// Of Context::workspace. Throws Error{unsupported} where no kernel serves the call.
std::int64_t attention_workspace_bytes(Device& device, const AttentionCall& call);

/// On compute capability 9.0 few queries over a cache are served here, many queries and all other
/// keys and values by attention_prefill.hpp; on 12.x all by attention_blackwell.hpp. What none does
/// is refused with the reason.
/// Ordered by `stream`; allocates and waits for nothing. Throws Error.
void attention(Device& device, const AttentionCall& call, std::span<std::uint8_t> workspace,
               Stream stream);

}  // namespace microscale::cuda
