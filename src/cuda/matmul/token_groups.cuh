// Groups of eight rows of a (layouts/token_tiles.hpp): whose they are, for the kernels that make a
// ready for products of many rows.
#pragma once

#include <cstdint>

#include "cuda/device/kernel_types.hpp"
#include "cuda/matmul/args.hpp"
#include "layouts/tiled_128x4.hpp"
#include "layouts/token_tiles.hpp"

namespace microscale::cuda {

/// A group of eight rows: whose, and which of that matrix's.
struct TokenGroup {
  std::int64_t matrix;
  MatrixRows rows;
  std::int64_t row;        // the group's first, in the matrix
  std::int64_t tile_rows;  // 128x4 tiles down the rows of the experts before
  bool found;
};

/// All threads call it. Experts are asked 256 at a time: each whether the group is its own, and, if
/// `tiled`, how many tiles its scales have.
__device__ inline TokenGroup find_token_group(const ProductRows& rows, std::int64_t group,
                                              bool tiled) {
  if (rows.expert_rows == nullptr) {
    // Groups are 1 KB or more each: fewer than 2^32.
    const std::int64_t each = token_tiles::groups(rows.m);
    const std::int64_t matrix =
        static_cast<std::uint32_t>(group) / static_cast<std::uint32_t>(each);
    return {matrix, rows_of_matrix(rows, matrix), (group - matrix * each) * token_tiles::group, 0,
            matrix < rows.matrices};
  }
  __shared__ TokenGroup result;
  __shared__ unsigned long long before;
  __shared__ unsigned int owners;  // experts may share a group where offsets decrease: one is taken
  if (threadIdx.x == 0) result = {}, before = 0, owners = 0;
  __syncthreads();
  for (std::int64_t first = 0; first < rows.matrices; first += threads_per_block) {
    const std::int64_t expert = first + threadIdx.x;
    const bool exists = expert < rows.matrices;
    const MatrixRows own = exists ? rows_of_matrix(rows, expert) : MatrixRows{0, 0};
    const std::int64_t at = token_tiles::first_group_of_expert(expert, own.first);
    if (own.count > 0 && group >= at && group < at + token_tiles::groups(own.count) &&
        atomicAdd(&owners, 1u) == 0)
      result = {expert, own, (group - at) * token_tiles::group, 0, true};
    __syncthreads();
    const TokenGroup seen = result;
    const std::int64_t tiles = tiled && exists ? scale_tile_rows(rows, own) : 0;
    if (tiles > 0 && (!seen.found || expert < seen.matrix))
      atomicAdd(&before, static_cast<unsigned long long>(tiles));
    if (seen.found) break;
  }
  __syncthreads();
  TokenGroup found = result;
  found.tile_rows = scale_tiles_before(rows, found.rows, static_cast<std::int64_t>(before));
  __syncthreads();  // before the next one is looked for
  return found;
}

/// A group in numbers of 32 bits: a row takes 128 bytes of tiles or more.
struct GroupPlace {
  std::uint32_t row, rows;     // the group's first, and how many there are, of its matrix
  std::uint32_t first_row;     // of the matrix, in a
  std::uint32_t first, count;  // groups in front of the matrix, and of it
  std::uint32_t scale_rows;    // rows of 128x4 tiles in front of the matrix
};
__device__ inline GroupPlace batch_group(const ProductRows& rows, std::uint32_t group, bool tiled) {
  const auto m = static_cast<std::uint32_t>(rows.m);
  const std::uint32_t each = (m + 7) / 8, matrix = rows.matrices == 1 ? 0 : group / each;
  return {(group - matrix * each) * 8,           m, matrix * m, matrix * each, each,
          tiled ? matrix * ((m + 127) / 128) : 0};
}
__device__ inline GroupPlace expert_group(const TokenGroup& at) {
  const auto rows = static_cast<std::uint32_t>(at.rows.count),
             first = static_cast<std::uint32_t>(at.rows.first);
  return {static_cast<std::uint32_t>(at.row),
          rows,
          first,
          static_cast<std::uint32_t>(token_tiles::first_group_of_expert(at.matrix, first)),
          (rows + 7) / 8,
          static_cast<std::uint32_t>(at.tile_rows)};
}

}  // namespace microscale::cuda
