// Products of few rows of a (tile/matmul_rows.cuh): two launches, one that makes a ready and the
// product. They take any number of rows, in turns.
#pragma once

#include <cstdint>

#include "core/matmul_call.hpp"
#include "cuda/device.hpp"
#include "cuda/matmul_args.hpp"

namespace microscale::cuda {

/// Bytes of workspace for that many rows of a, of all matrices.
std::int64_t matmul_rows_workspace(const MatmulCall& call, std::int64_t rows);

/// `rows` and `output`: of the call, as matmul.cpp makes them.
void matmul_rows(Device& device, const MatmulCall& call, const ProductRows& rows,
                 const ProductOutput& output, std::uint8_t* workspace, Stream stream);

}  // namespace microscale::cuda
