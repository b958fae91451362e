// Products with one row of a, both sides NVFP4, on Blackwell (compute capability 10.x and 12.x).
// docs/matmul_blackwell.md has the design.
#pragma once

#include <cstdint>
#include <string>

#include "cuda/matmul/block_scaled/launch.hpp"

namespace microscale::cuda {

/// Whether vector_product() takes it: NVFP4 by NVFP4, one row of a in each of at most 65535
/// matrices of a batch, no gate, k a multiple of 64, codes at multiples of 32 bytes.
bool vector_product_offered(const BlockScaledProduct& product);

/// "matmul_vector_nvfp4_7168", or "matmul_vector_nvfp4_any"
std::string vector_kernel(std::int64_t k);

/// A product that is offered: one launch, no workspace, nothing waited for. Operands are the
/// caller's to check. Throws Error{unsupported}, naming `operation`, where the device has no such
/// kernel.
void vector_product(Device& device, const BlockScaledProduct& product, const char* operation,
                    Stream stream);

}  // namespace microscale::cuda
