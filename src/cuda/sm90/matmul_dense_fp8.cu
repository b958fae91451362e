// Products of MXFP4 weights and very many rows of MXFP4 in FP8, and what makes both ready.
#include "cuda/matmul/expanded/kernel.cuh"
#include "cuda/matmul/expanded/expand_fp8.cuh"
#include "cuda/block/grid_order.cuh"
#include "cuda/matmul/expanded/prepare_fp8.cuh"

extern "C" __global__ void __launch_bounds__(256)
    matmul_ready_fp8(const __grid_constant__ microscale::cuda::ReadyFp8Args args) {
  using namespace microscale::cuda;
  follow_previous_grid();
  const TicketFlags misfit(args.misfit.word, 1, args.misfit.ticket);
  const std::uint32_t in_turn = 2 * min(args.expanding, args.preparing);
  const bool alone = blockIdx.x >= in_turn;
  const std::uint32_t block = alone ? blockIdx.x - in_turn / 2 : blockIdx.x / 2;
  if (alone ? args.expanding > args.preparing : blockIdx.x % 2 == 0)
    expand_fp8(args.weights, misfit, block);
  else
    prepare_fp8(args.rows, misfit, block);
}

extern "C" __global__ void __cluster_dims__(microscale::cuda::dense_blocks, 1, 1)
    __launch_bounds__(microscale::cuda::wide_threads, 1)
        matmul_dense_fp8(const __grid_constant__ microscale::cuda::MatmulDenseArgs args) {
  microscale::cuda::DenseProduct<microscale::cuda::DenseE5m2, microscale::cuda::DenseOutput>::run(
      args);
}
