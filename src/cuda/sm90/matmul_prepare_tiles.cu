// a of a matrix product of many rows, made ready: one entry point for each kind of a.
#include "cuda/matmul/prepare_blocks.cuh"
#include "cuda/matmul/prepare_tiles.cuh"

#define MICROSCALE_PREPARE_TILES(kind, ...)                                      \
  extern "C" __global__ void __launch_bounds__(256) matmul_prepare_tiles_##kind( \
      const __grid_constant__ microscale::cuda::PrepareTilesArgs args) {         \
    using namespace microscale;                                                  \
    cuda::prepare_tiles<cuda::__VA_ARGS__>(args);                                \
  }

MICROSCALE_PREPARE_TILES(dense, DenseTokens)
MICROSCALE_PREPARE_TILES(nvfp4, Nvfp4Tokens)
MICROSCALE_PREPARE_TILES(mxfp4, Mxfp4Tokens)
MICROSCALE_PREPARE_TILES(mxfp8_e4m3, Mxfp8Tokens<E4M3>)
MICROSCALE_PREPARE_TILES(mxfp8_e5m2, Mxfp8Tokens<E5M2>)

extern "C" __global__ void __launch_bounds__(256, 8)
    matmul_prepare_blocks_nvfp4(const __grid_constant__ microscale::cuda::PrepareTilesArgs args) {
  microscale::cuda::prepare_by_blocks(args);
}
