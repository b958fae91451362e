// Makes both operands of an FP8 product ready in one launch: expands the weights and prepares the
// rows of a, by blocks that take turns, as long as both have work.
#pragma once

#include "cuda/block/ticket_flags.cuh"
#include "cuda/matmul/args.hpp"
#include "cuda/matmul/expanded/expand_fp8.cuh"
#include "cuda/matmul/expanded/prepare_fp8.cuh"

namespace microscale::cuda::expanded {

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
