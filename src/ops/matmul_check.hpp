// What a matrix product refuses, and its running on the host.
#pragma once

#include <cstdint>

#include "seam/matmul_call.hpp"
#include "seam/matmul_kernels.hpp"

namespace microscale {

/// Everything that can be wrong with a call, before anything runs; of device memory only what can
/// be seen without reading it. Throws Error.
void check_matmul(const MatmulCall& call);

/// Plain weights, `matrices` of them, as pack_weights and the products take them. Throws Error.
void check_weights(const char* operation, const char* name, const BlockTensorView& b,
                   std::int64_t matrices);

/// The kernels that run a checked call on the host; null where d has no element. Throws Error
/// where no backend has any.
const MatmulKernels* choose_matmul_kernels(const MatmulCall& call, const Context& context);

/// Runs a checked call on the host, by those kernels. Throws Error.
void run_matmul(const MatmulCall& call, const Context& context, const MatmulKernels* kernels);

}  // namespace microscale
