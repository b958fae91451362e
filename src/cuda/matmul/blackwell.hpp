// Which products have kernels of Blackwell's own, and their launch from a call: both operands
// block-scaled, weights as they lie in memory.
#pragma once

#include "seam/matmul_call.hpp"
#include "cuda/device/device.hpp"
#include "cuda/matmul/args.hpp"

namespace microscale::cuda {

/// From so many rows of a matrix (of an expert, on average) on, the kernels that make 128 rows at a
/// time are taken.
inline constexpr std::int64_t least_block_scaled_rows = 17;

/// Whether blackwell_product() takes it on such a device.
bool is_blackwell_product(const DeviceInfo& device, const MatmulCall& call);

/// A call that it takes, checked; `rows` and `output` of the call as matmul.cpp makes them. One
/// launch, no workspace. Throws Error.
void blackwell_product(Device& device, const MatmulCall& call, const ProductRows& rows,
                       const ProductOutput& output, Stream stream);

}  // namespace microscale::cuda
