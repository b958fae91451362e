// What the end of a streamed row tile reads from memory (cuda/matmul/few_rows/line_kernel.cuh).
// Asked for when it is needed, it would come behind all weights under way, microseconds later. So
// the warp that stores has the bias of 32 row tiles in shared memory, and that of the next 32 on
// its way into registers.
#pragma once

#include <cstdint>

#include "cuda/matmul/few_rows/line_args.hpp"
#include "cuda/ptx/memory.cuh"
#include "cuda/ptx/scalar.cuh"
#include "layouts/tiled_128x4.hpp"
#include "microscale/format.hpp"

namespace microscale::cuda {

/// Row `line` of a row tile of a matrix; with scales in tiles, its rows are those whose scales lie
/// together there.
__device__ inline std::int64_t line_row(const LineStreamArgs& args, std::uint32_t tile, int line) {
  if (!args.b_tiled) return std::int64_t{tile} * line_rows + line;
  return std::int64_t{tile / line_tile_parts} * tiled_128x4::tile_lines +
         tile % line_tile_parts * 4 + line / 4 + 32 * (line % 4);
}

/// One warp calls all of it together.
class LineBias {
 public:
  /// `memory`: line_bias_bytes of shared memory; row tiles [begin, end) of all matrices.
  __device__ LineBias(const LineStreamArgs& args, std::uint32_t memory, std::uint32_t begin,
                      std::uint32_t end)
      : args_(args), memory_(memory), next_(begin), end_(end) {}

  /// Once, before `at`: brings the first into registers.
  __device__ void ask() {
    const ProductOutput& out = args_.output;
    if (out.bias == nullptr) return;
#pragma unroll
    for (int i = 0; i < each; ++i) {
      const std::uint32_t element = 32 * i + lane(), tile = next_ + element / line_rows,
                          matrix = static_cast<std::uint32_t>(
                              args_.by_row_tiles.divide(static_cast<int>(tile)));
      const std::int64_t row = line_row(args_, tile - matrix * args_.row_tiles,
                                        static_cast<int>(element % line_rows)),
                         index = matrix * out.bias_matrix + row;
      bits_[i] = 0;
      if (tile < end_ && row < args_.n)
        bits_[i] = wide() ? __ldg(static_cast<const std::uint32_t*>(out.bias) + index)
                          : __ldg(static_cast<const std::uint16_t*>(out.bias) + index);
    }
  }

  /// Of row tile `tile`, those asked for in order; -0 where there is none.
  __device__ float at(std::uint32_t tile, int line) {
    if (args_.output.bias == nullptr) return -0.0f;
    if (tile == next_) {
      __syncwarp();  // all have read what was there
#pragma unroll
      for (int i = 0; i < each; ++i)
        ptx::st_shared_f32(memory_ + 4 * (32 * i + lane()), value(bits_[i]));
      __syncwarp();
      first_ = next_;
      next_ += line_bias_tiles;
      ask();
    }
    return __uint_as_float(ptx::ld_shared_b32(memory_ + 4 * ((tile - first_) * line_rows + line)));
  }

 private:
  static constexpr int each = line_bias_tiles * line_rows / 32;  // of a lane

  __device__ static std::uint32_t lane() { return threadIdx.x % 32; }
  __device__ bool wide() const { return static_cast<DType>(args_.output.bias_type) == DType::f32; }
  __device__ float value(std::uint32_t bits) const {
    if (wide()) return __uint_as_float(bits);
    return static_cast<DType>(args_.output.bias_type) == DType::f16 ? ptx::cvt_f32_f16(bits)
                                                                    : __uint_as_float(bits << 16);
  }

  const LineStreamArgs& args_;
  const std::uint32_t memory_;
  std::uint32_t first_ = 0, next_;  // in shared memory; in registers
  const std::uint32_t end_;
  std::uint32_t bits_[each] = {};
};

}  // namespace microscale::cuda
