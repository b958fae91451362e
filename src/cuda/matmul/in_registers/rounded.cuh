// The short end of a tile of d in the kernels for many rows, where a sum wants nothing but factors
// and 16 bits: it is rounded in its register, so that half as many bytes pass through shared
// memory, and matrices of 8 x 8 change rows for columns on their way there.
#pragma once

#include <cstdint>

#include "cuda/ptx/control.cuh"
#include "cuda/ptx/ldmatrix.cuh"
#include "cuda/ptx/memory.cuh"
#include "cuda/matmul/product_output.cuh"
#include "cuda/matmul/in_registers/store.cuh"

namespace microscale::cuda {

/// Whether 64 columns from the tile's on may go the short way.
__device__ inline bool is_rounded(const ProductOutput& out, const WideTileOutput& tile,
                                  std::int64_t n) {
  return out.gated == 0 && out.bias == nullptr && out.row_weights == nullptr && tile.vectors &&
         static_cast<DType>(out.d_type) != DType::f32 && tile.column + 64 <= n;
}

/// A warpgroup's accumulators of 64 rows of the weights (wgmma.cuh has their places), times
/// `power`, a power of two, and `factor`, to d: the bits of stage_sums and store_staged. Up to 128
/// tokens at once. `to`: 128 bytes for each of these of shared memory, of this warpgroup alone, in
/// which piece c of 16 bytes of token t is at c ^ t % 8.
template <bool F16, int Count>
__device__ void store_rounded(const ProductOutput& out, float factor, float power,
                              const WideTileOutput& tile, const float (&d)[Count],
                              std::uint32_t to) {
  constexpr int at_once = Count < 64 ? Count : 64, tokens = 2 * at_once;
  const std::uint32_t thread = threadIdx.x % 128, lane = thread % 32, warp = thread / 32;
  const std::uint32_t barrier = 1 + threadIdx.x / 128;
  const auto rounded = [&](float x, float y) {
    if (power != 1.0f) x = __fmul_rn(x, power), y = __fmul_rn(y, power);
    x = __fmul_rn(x, factor), y = __fmul_rn(y, factor);
    return F16 ? ptx::cvt_rn_f16x2_f32(x, y) : ptx::cvt_rn_bf16x2_f32(x, y);
  };
  // Four matrices: eight rows of the weights and the other eight of the warp, of eight tokens, then
  // of the next eight.
  const std::uint32_t own = lane % 8, matrix = lane / 8;
  const std::uint32_t at = to + (matrix / 2 * 8 + own) * 128 + ((2 * warp + matrix % 2) ^ own) * 16;
  const std::uint32_t piece = thread % 8, first = thread / 8;
  const std::uint32_t from = to + first * 128 + (piece ^ first % 8) * 16;
  auto* row = static_cast<std::uint16_t*>(out.d) + tile.matrix * out.d_matrix +
              (tile.row + first) * out.d_stride + tile.column + 8 * piece;
#pragma unroll
  for (int begin = 0; begin < Count; begin += at_once) {
    if (begin > 0 && tile.tokens <= 2 * begin) return;
#pragma unroll
    for (int i = 0; i < at_once; i += 8) {
      const float* eight = d + begin + i;
      const std::uint32_t words[4] = {rounded(eight[0], eight[1]), rounded(eight[2], eight[3]),
                                      rounded(eight[4], eight[5]), rounded(eight[6], eight[7])};
      ptx::stmatrix_m8n8_x4_trans_b16(at + i / 8 * (16 * 128), words);
    }
    ptx::bar_sync(barrier, 128);
#pragma unroll
    for (int i = 0; i < tokens; i += 16, row += 16 * out.d_stride)
      if (static_cast<int>(first) + 2 * begin + i < tile.tokens)
        ptx::st_global_v4(row, ptx::ld_shared_v4(from + i * 128));
    ptx::bar_sync(barrier, 128);
  }
}

}  // namespace microscale::cuda
