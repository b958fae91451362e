// What backend cuda refuses of a product that check_matmul has passed.
#pragma once

#include <cstdint>
#include <span>

#include "cuda/device/device.hpp"
#include "seam/matmul_call.hpp"

namespace microscale::cuda {

/// Formats, types and shapes. Throws Error.
void check_product(const MatmulCall& call);

/// What pointers can break: each buffer there, aligned, on this device, and apart from what is
/// written; a workspace of `workspace_bytes`. Throws Error.
void check_memory(Device& device, const MatmulCall& call, std::span<std::uint8_t> workspace,
                  std::int64_t workspace_bytes);

}  // namespace microscale::cuda
