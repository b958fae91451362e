// Matrix products on device memory: check, choose a kernel, fill its arguments, launch. No
// arithmetic here. Ordered by `stream`; nothing is allocated or waited for once kernels are loaded.
#pragma once

#include <cstdint>
#include <span>

#include "seam/matmul_call.hpp"
#include "cuda/device/device.hpp"

namespace microscale::cuda {

/// A call that check_matmul has passed. `workspace`: matmul_workspace_bytes of device memory.
/// Throws Error.
void matmul(Device& device, const MatmulCall& call, std::span<std::uint8_t> workspace,
            Stream stream);
std::int64_t matmul_workspace_bytes(Device& device, const MatmulCall& call);

/// Weights in layouts/fragment_tiles.hpp. Throws Error{unsupported} for formats that no kernel has.
std::int64_t packed_weights_bytes(const BlockShape& shape, std::int64_t matrices, bool gated);
/// Operands as pack_weights has checked them; `up` null: not gated.
PackedWeights pack_weights(Device& device, const BlockTensorView& b, const BlockTensorView* up,
                           std::span<std::uint8_t> bytes, std::int64_t matrices, Stream stream);

}  // namespace microscale::cuda
