// How a warp of packed_kernel.cuh copies packed weights, up to four tiles of 16 x 64 at a time,
// reads them with the rows of a that they meet, and multiplies.
#pragma once

#include <cstdint>

#include "cuda/matmul/fallback/kernel.cuh"
#include "cuda/matmul/few_rows/packed_rows.cuh"
#include "cuda/matmul/few_rows/args.hpp"
#include "cuda/ptx/async_copy.cuh"
#include "cuda/ptx/control.cuh"
#include "cuda/ptx/mbarrier.cuh"
#include "cuda/ptx/memory.cuh"
#include "cuda/ptx/mma.cuh"

namespace microscale::cuda::few_rows {

template <class Weights, int Tiles>
class PackedLoads {
 public:
  using Product = RowsProduct<Weights, false, Tiles, PackedArgs>;
  static constexpr PackedShape shape = packed_shape(Weights::Source::tile, Tiles);
  static constexpr bool bf16 = multiplies_bf16<Weights>;  // rows of BF16, and no others
  static constexpr int arrivals = 1;                      // at a stage's barrier, beside bytes
  // Chunks whose operands are asked for together; more do not fit the registers.
  static constexpr int at_once = Weights::scales_follow && Tiles == 2 ? 2 : 4;
  static constexpr int chunk_bytes = shape.stage_bytes / shape.stage_chunks;

  __device__ PackedLoads(const PackedArgs& args, std::uint32_t lane) : args_(args), lane_(lane) {}

  /// Makes the next copies begin with this chunk of a row tile.
  __device__ void aim(std::int64_t matrix, std::uint32_t row_tile, int chunk) {
    first_ = args_.b + matrix * args_.b_matrix +
             (std::int64_t{row_tile} * args_.chunks + chunk) * chunk_bytes;
    from_ = first_;
  }
  /// Makes them begin with the same chunk, `row_tiles` further.
  __device__ void advance(std::uint32_t row_tiles) {
    first_ += std::int64_t{row_tiles * static_cast<std::uint32_t>(args_.chunks)} * chunk_bytes;
    from_ = first_;
  }
  // Weights are read once: they leave the second-level cache before what the kernels beside this
  // one read again and again, their code above all.

  /// Brings the next `chunks` to the second-level cache.
  __device__ void prefetch(int chunks) const {
    if (ptx::elect_sync())
      ptx::cp_async_bulk_prefetch_l2_global_l2_cache_hint(
          from_, chunks * chunk_bytes, ptx::createpolicy_fractional_l2_evict_first());
  }
  /// Copies the next `chunks`, at most a stage of them. The whole warp.
  __device__ void copy(int chunks, std::uint32_t to, std::uint32_t barrier) {
    const std::uint32_t bytes = chunks * chunk_bytes;
    if (ptx::elect_sync()) {
      ptx::mbarrier_arrive_expect_tx(barrier, bytes);
      ptx::cp_async_bulk_shared_cluster_global_mbarrier_l2_cache_hint(
          to, from_, bytes, barrier, ptx::createpolicy_fractional_l2_evict_first());
    }
    from_ += bytes;
  }

  /// Says where `count` rows of a are: at `units`, `pitch` bytes apart.
  __device__ void begin(std::uint32_t units, std::uint32_t pitch, int count) {
#pragma unroll
    for (int tile = 0; tile < Tiles; ++tile) {  // ldmatrix: a row a lane, the last beyond the last
      const int row = 8 * tile + static_cast<int>(lane_) % 8;
      units_[tile] = units + (row < count ? row : count - 1) * pitch + lane_ / 8 * 16;
    }
  }

  struct Chunk {
    Weights weights;
    typename Product::Units units[Tiles];
  };
  /// Reads chunk `i` of a stage, and chunk `chunk` of the rows of a.
  __device__ Chunk read(std::uint32_t stage, int i, int chunk) const {
    Chunk c;
    c.weights = Weights::read(stage + i * chunk_bytes, lane_);
#pragma unroll
    for (int tile = 0; tile < Tiles; ++tile) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        std::uint32_t d[4];
        ptx::ldmatrix_m8n8_x4_b16(d, units_[tile] + chunk * shape.units_bytes + 64 * half);
        c.units[tile].halves[half] = make_uint4(d[0], d[1], d[2], d[3]);
      }
    }
    return c;
  }
  __device__ void multiply(Product& product, const Chunk& c) const {
    product.multiply(c.weights, c.units, 0, 0);
    product.multiply(c.weights, c.units, 0, 1);
  }

  /// Puts a warp's sums into a slot and makes them zero.
  __device__ static void put_sums(Product& product, std::uint32_t to) {
    to += threadIdx.x % 32 * 4;
#pragma unroll
    for (int t = 0; t < Tiles; ++t)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        ptx::st_shared_f32(to + 128 * (4 * t + i), product.sums[t][i]);
        product.sums[t][i] = 0.0f;
      }
  }

  /// The sums that thread `e` of a slot adds up: those of weight rows g and g + 8 and a row of a.
  __device__ static SumPlace sum(std::uint32_t e) {
    const std::uint32_t tile = e / 64, half = e / 32 % 2, lane = e % 32;
    const std::uint32_t low = 128 * (4 * tile + half) + 4 * lane;
    return {low, low + 256, 8 * tile + 2 * (lane % 4) + half, lane / 4};
  }

 private:
  const PackedArgs& args_;
  const std::uint32_t lane_;
  const std::uint8_t *first_ = nullptr, *from_ = nullptr;  // of the row tile; the next
  std::uint32_t units_[Tiles]{};
};

}  // namespace microscale::cuda::few_rows
