// The warp of unpacked_kernel.cuh that adds up what the others found, and stores it: lane l takes
// row l % 16 of a row tile, lanes 0 to 15 the first four warps' sums, the others the last four's.
#pragma once

#include <cstdint>

#include "cuda/matmul/few_rows/cluster.cuh"
#include "cuda/matmul/few_rows/args.hpp"
#include "cuda/matmul/few_rows/ring.cuh"
#include "cuda/matmul/product_output.cuh"
#include "cuda/ptx/control.cuh"
#include "cuda/ptx/mbarrier.cuh"
#include "cuda/ptx/memory.cuh"
#include "cuda/ptx/scalar.cuh"
#include "layouts/tiled_128x4.hpp"
#include "microscale/format.hpp"

namespace microscale::cuda::few_rows {

// The bias for the warp that stores (unpacked_end.cuh). A load issued when it is needed would come
// behind all weights under way, microseconds later. So the bias of 32 row tiles is in shared
// memory, and that of the next 32 on its way into registers.

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

/// All lanes of one warp call its functions together.
class UnpackedEnd {
 public:
  /// `rank`: of the block in its cluster; `matrix`, `tile`: the first row tile's, `tile` in its
  /// matrix.
  __device__ UnpackedEnd(const UnpackedArgs& args, std::uint32_t base, const Share& share,
                         std::uint32_t rank, std::uint32_t matrix, std::uint32_t tile)
      : args_(args),
        base_(base),
        share_(share),
        rank_(rank),
        line_(static_cast<int>(threadIdx.x % tile_rows)),
        slots_(base + args.shared.barriers + HandedRing::barrier_bytes * args.depth, sum_slots),
        bias_(args, base + args.shared.bias, share.begin, share.end),
        tile_(share.begin),
        matrix_(matrix),
        of_matrix_(tile) {}

  /// Makes the barriers of slots and mailbox; a barrier of the block follows, then the cluster's.
  __device__ void init() const {
    if (ptx::elect_sync()) mailbox().init();
    slots_.init(32 * unpacked_warps, 32);
    ptx::fence_mbarrier_init();
  }

  /// Loads factors and bias; before `run`, and before weights are on their way, behind which they
  /// would arrive.
  __device__ void ask() {
    globals_ = load_globals(matrix_);
    next_globals_ = load_globals(matrix_ + 1);
    bias_.ask();
  }

  /// Adds up and stores all row tiles. The other block of the cluster has arrived.
  __device__ void run() {
    const ProductOutput& out = args_.output;
    if (ptx::elect_sync()) mailbox().expect(8 * tile_rows);
    if (rank_ > 0 && share_.begin < share_.end && share_.stage > 0) {
      // The end of a row tile that the other block stores.
      bias_.at(tile_, line_);
      const float sum = add_up();
      if (threadIdx.x % 32 < tile_rows) mailbox().send(0, 8 * line_, sum, 0.0f);
      next_tile();
    }
    for (; tile_ < share_.end; next_tile()) {
      const ProductFactors factors{__fmul_rn(__fmul_rn(globals_.a, globals_.b), out.alpha), 0.0f};
      const std::int64_t col = weight_row(args_, of_matrix_, line_);
      const ProductBias bias{bias_.at(tile_, line_), -0.0f};
      float sum = add_up();
      if (share_.end_stage(tile_, args_.stages) < args_.stages) {
        mailbox().wait_acquire(0);
        sum = __fadd_rn(sum, __uint_as_float(ptx::ld_shared_b32(mailbox().memory + 8 * line_)));
      }
      if (col < args_.n && threadIdx.x % 32 < tile_rows)
        store_element(out.d, out.d_type, matrix_ * out.d_matrix + col,
                      finished<false>(out, factors, bias, 1.0f, sum, 0.0f));
    }
  }

 private:
  /// Holds the other block's sums of a row tile, 8 bytes a row.
  __device__ Mailbox mailbox() const {
    return {base_ + args_.shared.mailbox,
            base_ + args_.shared.barriers + HandedRing::barrier_bytes * (args_.depth + sum_slots)};
  }

  struct Globals {
    float a, b;
  };
  __device__ Globals load_globals(std::uint32_t matrix) const {
    const ProductOutput& out = args_.output;
    if (matrix * args_.row_tiles >= share_.end) return {1.0f, 1.0f};
    return {out.a_global == nullptr ? 1.0f : __ldg(out.a_global + matrix * out.a_global_step),
            out.b_global == nullptr ? 1.0f : __ldg(out.b_global + matrix * out.b_global_step)};
  }

  __device__ void next_tile() {
    ++tile_;
    if (++of_matrix_ < args_.row_tiles) return;
    of_matrix_ = 0;
    ++matrix_;
    globals_ = next_globals_;
    next_globals_ = load_globals(matrix_ + 1);
  }

  /// The sum of all warps' sums of this lane's row.
  __device__ float add_up() {
    slots_.wait_full();
    float sum = 0.0f;
    std::uint32_t read = 0;
    const std::uint32_t from = base_ + args_.shared.slots + slots_.offset<sum_slot_bytes>() +
                               threadIdx.x % 32 / tile_rows * (sum_slot_bytes / 2) + line_ * 16;
#pragma unroll
    for (int w = 0; w < unpacked_warps / 2; ++w) {
      const uint4 four = ptx::ld_shared_v4(from + w * (tile_rows * 16));
      read = four.x;
      sum = __fadd_rn(sum, __fadd_rn(__fadd_rn(__uint_as_float(four.x), __uint_as_float(four.y)),
                                     __fadd_rn(__uint_as_float(four.z), __uint_as_float(four.w))));
    }
    slots_.arrive_empty(read);
    slots_.next();
    return __fadd_rn(sum, __shfl_xor_sync(0xFFFFFFFFu, sum, tile_rows));
  }

  const UnpackedArgs& args_;
  const std::uint32_t base_;
  const Share share_;
  const std::uint32_t rank_;
  const int line_;
  HandedRing slots_;
  UnpackedBias bias_;
  Globals globals_{}, next_globals_{};
  std::uint32_t tile_, matrix_, of_matrix_;
};

}  // namespace microscale::cuda::few_rows
