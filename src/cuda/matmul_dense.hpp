// Matrix products of packed weights and very many rows of a, on Hopper: expands the weights once in
// a workspace, to elements with their scales inside, makes a the same, and multiplies. No
// arithmetic here, nothing allocated, nothing waited for.
#pragma once

#include <cstdint>

#include "cuda/matmul_wide.hpp"

namespace microscale::cuda {

/// Rows of a matrix, or of an expert if all have equally many, from which on expanding pays.
/// Writing a weight costs about 2.5 bytes of memory traffic, at 4.2 TB/s what a product spends on
/// 600 rows by being a quarter slower; 128 rows of an expert's last tile are idle on average.
inline constexpr std::int64_t dense_least_rows = 1024;

/// Whether a call that matmul_wide takes is better off here.
bool dense_serves(const WideCall& call);

/// What matmul_dense needs: a and all weights, 2 bytes an element, rows filled up to 8 a matrix (of
/// a) and to 16 (of the weights), k to 64; with fp8 one byte more each. As wide_workspace_bytes.
std::int64_t dense_workspace_bytes(const WideCall& call);

/// As matmul_wide, whatever the number of rows, within the same bounds; the workspace of
/// dense_workspace_bytes. Three launches; with fp8 seven.
void matmul_dense(Device& device, const char* operation, const WideCall& call, Stream stream);

}  // namespace microscale::cuda
