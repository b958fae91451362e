// The bias for the warp that stores (unpacked_end.cuh). A load issued when it is needed would come
// behind all weights under way, microseconds later. So the bias of 32 row tiles is in shared
// memory, and that of the next 32 on its way into registers.
#pragma once

#include <cstdint>

#include "cuda/matmul/few_rows/plan.hpp"
#include "cuda/ptx/memory.cuh"
#include "cuda/ptx/scalar.cuh"
#include "layouts/tiled_128x4.hpp"
#include "microscale/format.hpp"

namespace microscale::cuda::few_rows {

/// The weights' row that is row `line` of a row tile of a matrix. Where scales are in 128x4 tiles,
/// a row tile is 16 rows whose scales lie together there.
__device__ inline std::int64_t weight_row(const UnpackedArgs& args, std::uint32_t tile, int line) {
  if (!args.b_tiled) return std::int64_t{tile} * tile_rows + line;
  return std::int64_t{tile / tiles_of_scale_tile} * tiled_128x4::tile_lines +
         tile % tiles_of_scale_tile * 4 + line / 4 + 32 * (line % 4);
}

/// All lanes of one warp call its functions together.
class UnpackedBias {
 public:
  /// `memory`: bias_bytes of shared memory; row tiles [begin, end) of all matrices.
  __device__ UnpackedBias(const UnpackedArgs& args, std::uint32_t memory, std::uint32_t begin,
                          std::uint32_t end)
      : args_(args), memory_(memory), next_(begin), end_(end) {}

  /// Loads the bias of the next bias_tiles row tiles into registers; once before the first `at`.
  __device__ void ask() {
    const ProductOutput& out = args_.output;
    if (out.bias == nullptr) return;
#pragma unroll
    for (int i = 0; i < each; ++i) {
      const std::uint32_t element = 32 * i + lane(), tile = next_ + element / tile_rows,
                          matrix = static_cast<std::uint32_t>(
                              args_.by_row_tiles.divide(static_cast<int>(tile)));
      const std::int64_t row = weight_row(args_, tile - matrix * args_.row_tiles,
                                          static_cast<int>(element % tile_rows)),
                         index = matrix * out.bias_matrix + row;
      bits_[i] = 0;
      if (tile < end_ && row < args_.n)
        bits_[i] = wide() ? __ldg(static_cast<const std::uint32_t*>(out.bias) + index)
                          : __ldg(static_cast<const std::uint16_t*>(out.bias) + index);
    }
  }

  /// The bias of row `line` of row tile `tile`; -0 where there is none. Tiles come in order.
  __device__ float at(std::uint32_t tile, int line) {
    if (args_.output.bias == nullptr) return -0.0f;
    if (tile == next_) {
      __syncwarp();  // all have read what was there
#pragma unroll
      for (int i = 0; i < each; ++i)
        ptx::st_shared_f32(memory_ + 4 * (32 * i + lane()), value(bits_[i]));
      __syncwarp();
      first_ = next_;
      next_ += bias_tiles;
      ask();
    }
    return __uint_as_float(ptx::ld_shared_b32(memory_ + 4 * ((tile - first_) * tile_rows + line)));
  }

 private:
  static constexpr int each = bias_tiles * tile_rows / 32;  // of a lane

  __device__ static std::uint32_t lane() { return threadIdx.x % 32; }
  __device__ bool wide() const { return static_cast<DType>(args_.output.bias_type) == DType::f32; }
  __device__ float value(std::uint32_t bits) const {
    if (wide()) return __uint_as_float(bits);
    return static_cast<DType>(args_.output.bias_type) == DType::f16 ? ptx::cvt_f32_f16(bits)
                                                                    : __uint_as_float(bits << 16);
  }

  const UnpackedArgs& args_;
  const std::uint32_t memory_;
  std::uint32_t first_ = 0, next_;  // in shared memory; in registers
  const std::uint32_t end_;
  std::uint32_t bits_[each] = {};
};

}  // namespace microscale::cuda::few_rows
