// What a matrix product refuses, and its running on the host.
#pragma once

#include <cstdint>

#include "seam/matmul_call.hpp"

namespace microscale {

/// Everything that can be wrong with a call, before anything runs; of device memory only what can
/// be seen without reading it. Throws Error.
void check_matmul(const MatmulCall& call);

/// Plain weights, `matrices` of them, as pack_weights and the products take them. Throws Error.
void check_weights(const char* operation, const char* name, const BlockTensorView& b,
                   std::int64_t matrices);

/// Runs a checked call on the host. Throws Error where no backend does.
void run_matmul(const MatmulCall& call, const Context& context);

}  // namespace microscale
