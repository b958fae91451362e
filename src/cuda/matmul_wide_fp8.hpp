// The launches of a product in FP8, for matmul_wide.
#pragma once

#include "cuda/matmul_wide.hpp"

namespace microscale::cuda {

/// Whether the call asks for FP8, and its formats have it.
bool multiplies_fp8(const WideCall& call);

std::int64_t fp8_workspace_bytes(const WideCall& call);

/// Four things in `workspace`'s order: looks at the weights, prepares a, multiplies. Returns a word
/// of device memory that is not 0 where nothing has been multiplied: BF16 has to.
const std::uint32_t* multiply_fp8(Device& device, const char* operation, const WideCall& call,
                                  const PrepareTilesArgs& a, const MatmulWideArgs& product,
                                  void* workspace, Stream stream);

}  // namespace microscale::cuda
