// Matrix products on device memory: check, choose a plan, run it. No arithmetic here. Ordered by
// `stream`; nothing is allocated or waited for once kernels are loaded.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "cuda/device/device.hpp"
#include "cuda/matmul/plan.hpp"
#include "seam/matmul_call.hpp"
#include "seam/matmul_plan.hpp"

namespace microscale::cuda {

/// A call that check_matmul has passed. `workspace`: matmul_workspace_bytes of device memory.
/// Throws Error.
void matmul(Device& device, const MatmulCall& call, std::span<std::uint8_t> workspace,
            Stream stream);
std::int64_t matmul_workspace_bytes(Device& device, const MatmulCall& call);

/// The two halves of matmul(), for those who run a product again and again: the plan of a checked
/// call, and a call of the same shapes, types and strides by it. Throws Error.
Plan plan_matmul(const DeviceFacts& facts, const MatmulCall& call);
void run_matmul(Device& device, const Plan& plan, const MatmulCall& call,
                std::span<std::uint8_t> workspace, Stream stream);

/// The same two for MatmulPlan, of a device that outlives it.
std::unique_ptr<GpuMatmulPlan> keep_plan(Device& device, const MatmulCall& call);

/// Weights in layouts/fragment_tiles.hpp. Throws Error{unsupported} for formats that no kernel has.
std::int64_t packed_weights_bytes(const BlockShape& shape, std::int64_t matrices, bool gated);
/// Operands as pack_weights has checked them; `up` null: not gated.
PackedWeights pack_weights(Device& device, const BlockTensorView& b, const BlockTensorView* up,
                           std::span<std::uint8_t> bytes, std::int64_t matrices, Stream stream);

}  // namespace microscale::cuda
