// Products of few rows of a, any number of them in turns: where they serve by the streaming kernels
// (line_stream.hpp, matmul_stream.hpp), one launch, else by cuda/matmul/fallback/kernel.cuh, two:
// one that makes a ready, and the product.
#pragma once

#include <cstdint>

#include "seam/matmul_call.hpp"
#include "cuda/device/device.hpp"
#include "cuda/matmul/args.hpp"

namespace microscale::cuda {

/// Bytes of workspace for that many rows of a, of all matrices, whichever kernel serves.
std::int64_t matmul_rows_workspace(const MatmulCall& call, std::int64_t rows);

/// `rows` and `output`: of the call, as matmul.cpp makes them.
void matmul_rows(Device& device, const MatmulCall& call, const ProductRows& rows,
                 const ProductOutput& output, std::uint8_t* workspace, Stream stream);

}  // namespace microscale::cuda
