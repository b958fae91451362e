// Attention on consumer Blackwell (compute capability 12.x) by block-scaled matrix instructions.
#pragma once

#include <cstdint>
#include <span>

#include "seam/attention_call.hpp"
#include "cuda/device/device.hpp"

namespace microscale::cuda {

/// Of Context::workspace: dense operands as codes, and the sums of parts of the keys. Throws
/// Error{unsupported} where no kernel serves the call.
std::int64_t blackwell_attention_workspace_bytes(Device& device, const AttentionCall& call);

/// Quantizes what is dense into `workspace`, which has so many bytes at a multiple of 256, and
/// attends; where keys are cut into parts, merges these. Throws Error.
void blackwell_attention(Device& device, const AttentionCall& call,
                         std::span<std::uint8_t> workspace, Stream stream);

}  // namespace microscale::cuda
