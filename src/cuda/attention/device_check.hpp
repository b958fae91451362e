// What all kinds of attention on a GPU ask of the device and of memory.
#pragma once

#include <cstdint>
#include <span>

#include "seam/attention_call.hpp"
#include "cuda/device/device.hpp"
#include "cuda/device/operands.hpp"

namespace microscale::cuda {

/// Throws Error{unsupported} unless kernels of this build may run there.
void check_attention_device(Device& device);

/// All memory of the call is the device's, and so is a workspace of `needed` bytes, apart from it.
/// Throws Error{invalid_argument}.
void check_attention_memory(Device& device, const AttentionCall& call,
                            std::span<const std::uint8_t> workspace, std::int64_t needed);

}  // namespace microscale::cuda
