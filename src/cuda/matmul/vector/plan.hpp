// Products with one row of a, both sides NVFP4, on Blackwell (compute capability 10.x and 12.x).
// docs/matmul_blackwell.md has the design.
#pragma once

#include <cstdint>
#include <string>

#include "cuda/device/device.hpp"
#include "cuda/device/entry.hpp"
#include "cuda/matmul/product.hpp"
#include "cuda/matmul/vector/args.hpp"

namespace microscale::cuda::vector {

/// What codes of both sides have to be aligned to.
inline constexpr std::uintptr_t code_alignment = 32;

/// Whether these kernels take it but for where codes lie: NVFP4 by NVFP4, one row of a in each of
/// at most 65535 matrices of a batch, no gate, weights not packed, k a multiple of 64.
bool takes(const Product& product);
/// Whether codes of both sides are at multiples of code_alignment.
bool takes_alignment(const Product& product);

/// "matmul_vector_nvfp4_7168", or "matmul_vector_nvfp4_any"
Entry<MatmulVectorArgs> kernel_of(std::int64_t k);

struct Plan {
  std::int64_t blocks = 0;  // of a matrix
};
Plan plan_of(const Product& product);
std::string describe(const Plan& plan);

/// A product that is taken: one launch, no workspace, nothing waited for. Throws
/// Error{unsupported} where the device has no such kernel.
void run(Device& device, const Plan& plan, const Product& product, Stream stream);

}  // namespace microscale::cuda::vector
