// Makes both operands of an FP8 product ready in one launch: expands the weights (expand_fp8.cuh)
// and makes E5M2 of rows of MXFP4 (fp8_window.cuh), by blocks that take turns, as long as both have
// work.
#pragma once

#include <cstdint>

#include "cuda/block/grid_order.cuh"
#include "cuda/matmul/args.hpp"
#include "cuda/matmul/expanded/expand_fp8.cuh"
#include "cuda/matmul/expanded/args.hpp"
#include "cuda/matmul/fp8_window.cuh"
#include "cuda/matmul/token_groups.cuh"
#include "cuda/ptx/memory.cuh"
#include "layouts/tiled_128x4.hpp"
#include "layouts/token_tiles.hpp"

namespace microscale::cuda::expanded {

/// A lane's 16 elements as they are stored: of each 16, positions 4 t to 4 t + 3 are elements 2 t,
/// 2 t + 8, 2 t + 1, 2 t + 9, as expand_fp8.cuh leaves the weights.
__device__ inline uint4 e5m2_piece(uint2 codes, E5m2Table table) {
  const uint2 low = e5m2_of_e2m1(codes.x, table), high = e5m2_of_e2m1(codes.y, table);
  return make_uint4(ptx::prmt_b32(low.x, high.x, 0x5140), ptx::prmt_b32(low.x, high.x, 0x7362),
                    ptx::prmt_b32(low.y, high.y, 0x5140), ptx::prmt_b32(low.y, high.y, 0x7362));
}

/// Eight rows, warp w row w, by fp8_pieces times 512 elements of k from `first_column` on, pieces
/// of 16 a lane: half a block; eight lanes have a chunk.
__device__ inline void prepare_fp8_group(const PrepareFp8Args& both, const GroupPlace& at,
                                         std::uint32_t first_column, const TicketFlags& misfit) {
  const PrepareTilesArgs& args = both.a;
  const std::uint32_t lane = threadIdx.x & 31, in_group = threadIdx.x / 32, row = at.row + in_group,
                      column = first_column + lane * 16;
  const auto k = static_cast<std::uint32_t>(args.k);
  const std::uint32_t end = row < at.rows ? k : 0;
  uint2 codes[fp8_pieces] = {};
  std::uint32_t bytes[fp8_pieces] = {};
  if (column < end) {
    const std::uint32_t own = at.first_row + row;
    const auto* from = static_cast<const std::uint8_t*>(args.a) + own * args.a_stride + column / 2;
    const std::uint8_t* scales =
        args.scales + (args.tiled
                           ? tiled_128x4::offset(at.scale_rows * 128 + row, column / 32, k / 32)
                           : std::uint64_t{own} * (k / 32) + column / 32);
    const std::uint32_t next_scale = 512 / 32 * (args.tiled ? 128 : 1);
#pragma unroll
    for (int i = 0; i < fp8_pieces; ++i) {
      if (column + 512 * i >= end) break;
      codes[i] = ptx::ld_global_nc_v2(from + 256 * i);
      bytes[i] = __ldg(scales + next_scale * i);
    }
  }
  const std::uint32_t chunks = (k + 127) / 128, chunk = column / 128,
                      place = at.first * chunks + chunk * at.count + at.row / 8;
  char* to = static_cast<char*>(args.tiles) + std::uint64_t{place} * token_tiles::group_bytes +
             token_tiles::piece_offset(in_group, lane % 8);
  float* factor = both.factors + std::uint64_t{place} * 8 + in_group;
  bool fits = true;
#pragma unroll
  for (int i = 0; i < fp8_pieces; ++i) {
    if (chunk - lane / 8 + 4 * i >= chunks) break;  // the whole warp
    ScaleSpan span;
    span.add(bytes[i], ((codes[i].x | codes[i].y) & 0x77777777u) != 0);
#pragma unroll
    for (int distance = 1; distance < 8; distance *= 2) span.join_lanes(distance);
    fits &= span.fits();
    const std::uint32_t reference = span.reference();
    if (chunk + 4 * i < chunks) {
      ptx::st_global_v4(to, e5m2_piece(codes[i], e5m2_table(bytes[i], reference)));
      if (lane % 8 == 0) *factor = fp8_factor(reference);
    }
    to += std::uint64_t{at.count} * (4 * token_tiles::group_bytes);
    factor += at.count * 32;
  }
  if (__any_sync(0xFFFFFFFFu, !fits) && lane == 0) misfit.set(0);
}

/// What thread block `block` does.
__device__ inline void prepare_fp8(const PrepareFp8Args& args, const TicketFlags& misfit,
                                   std::uint32_t block) {
  const PrepareTilesArgs& a = args.a;
  const bool tiled = a.tiled != 0, experts = a.rows.expert_rows != nullptr;
  const auto first = static_cast<std::uint32_t>(args.by_parts.divide(static_cast<int>(block))),
             all = static_cast<std::uint32_t>(
                 token_tiles::all_groups(a.rows.m, a.rows.matrices, experts));
  const std::uint32_t column = (block - first * args.parts) * (512 * fp8_pieces);
#pragma unroll 1
  for (std::uint32_t group = first; group < all; group += args.groups_at_once) {
    GroupPlace at;
    if (experts) {
      const TokenGroup found = find_token_group(a.rows, group, tiled);
      if (!found.found) continue;
      at = expert_group(found);
    } else {
      at = batch_group(a.rows, group, tiled);
    }
    prepare_fp8_group(args, at, column, misfit);
  }
}

/// Of 2 min(expanding, preparing) blocks the even ones expand and the odd ones prepare; the blocks
/// behind them do what is left of the longer job.
__device__ inline void ready_fp8(const ReadyFp8Args& args) {
  const TicketFlags misfit(args.misfit.word, 1, args.misfit.ticket);
  const std::uint32_t in_turn = 2 * min(args.expanding, args.preparing);
  const bool alone = blockIdx.x >= in_turn;
  const std::uint32_t block = alone ? blockIdx.x - in_turn / 2 : blockIdx.x / 2;
  if (alone ? args.expanding > args.preparing : blockIdx.x % 2 == 0)
    expand_fp8(args.weights, misfit, block);
  else
    prepare_fp8(args.rows, misfit, block);
}

}  // namespace microscale::cuda::expanded
