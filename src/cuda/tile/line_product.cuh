// Products of one row of a with plain 4-bit weights on Hopper, at the speed of memory. A block
// stays on its multiprocessor and takes its share of the row tiles of all matrices. Four warps copy
// 2048 columns of 16 rows at a time into a ring of stages, a linear bulk copy a row and operand, as
// long as they can be; 16 warps multiply 128 columns of each stage; one more warp adds up what they
// find and stores it, so that none of them waits for the end of a row tile.
//
// The order of all additions depends on k alone: of a lane along k, of four lanes, of eight warps
// in a row, of both halves.
#pragma once

#include <cstdint>

#include "cuda/matmul_line_args.hpp"
#include "cuda/ptx/async_copy.cuh"
#include "cuda/ptx/mbarrier.cuh"
#include "cuda/ptx/memory.cuh"
#include "cuda/tile/grid_order.cuh"
#include "cuda/tile/line_weights.cuh"
#include "cuda/tile/product_output.cuh"

namespace microscale::cuda {

/// Stages or slots that some fill and others empty: barriers of the full ones, then of the empty
/// ones.
class LineRing {
 public:
  __device__ LineRing(std::uint32_t barriers, int depth) : barriers_(barriers), depth_(depth) {}

  /// One thread.
  __device__ void init(std::uint32_t fillers, std::uint32_t readers) const {
    for (int i = 0; i < depth_; ++i) {
      ptx::mbarrier_init_shared(barriers_ + 8 * i, fillers);
      ptx::mbarrier_init_shared(barriers_ + 8 * (depth_ + i), readers);
    }
  }
  __device__ int at() const { return at_; }
  __device__ std::uint32_t full() const { return barriers_ + 8 * at_; }
  __device__ void wait_full() const { wait(full(), parity_); }
  __device__ void wait_empty() const { wait(empty(), parity_ ^ 1); }
  /// A whole warp is through with it, as it fills or as it reads.
  __device__ void arrive_full(int lane) const { arrive(full(), lane); }
  __device__ void arrive_empty(int lane) const { arrive(empty(), lane); }
  __device__ void next() {
    if (++at_ == depth_) at_ = 0, parity_ ^= 1;
  }

 private:
  __device__ std::uint32_t empty() const { return barriers_ + 8 * (depth_ + at_); }
  __device__ static void wait(std::uint32_t barrier, std::uint32_t parity) {
    while (!ptx::mbarrier_try_wait_parity(barrier, parity)) {
    }
  }
  __device__ static void arrive(std::uint32_t barrier, int lane) {
    __syncwarp();
    ptx::mbarrier_arrive(barrier, lane == 0);
  }
  std::uint32_t barriers_;
  int depth_, at_ = 0;
  std::uint32_t parity_ = 0;
};

template <int Block, template <int> class By>
class LineProduct {
  using Units = typename By<Block>::Units;
  using Weights = LineWeights<Block>;

 public:
  __device__ static void run(const MatmulLineArgs& args) {
    extern __shared__ __align__(128) unsigned char memory[];
    LineProduct product(args, static_cast<std::uint32_t>(__cvta_generic_to_shared(memory)));
    product.run();
  }

 private:
  __device__ LineProduct(const MatmulLineArgs& args, std::uint32_t base)
      : args_(args),
        base_(base),
        lane_(static_cast<int>(threadIdx.x & 31)),
        warp_(static_cast<int>(threadIdx.x >> 5)),
        ring_(base + args.shared.barriers, args.depth),
        slots_(base + args.shared.barriers + 16 * args.depth, line_slots),
        begin_(line_share(args.tiles, blockIdx.x, gridDim.x)),
        end_(line_share(args.tiles, blockIdx.x + 1, gridDim.x)),
        first_matrix_(begin_ / args.row_tiles),
        first_tile_(begin_ - first_matrix_ * args.row_tiles) {}

  __device__ void run() {
    if (threadIdx.x == 0) {
      ring_.init(line_copy_warps, line_warps);
      slots_.init(line_warps, 1);
      ptx::fence_mbarrier_init();
    }
    follow_previous_grid();
    // What is read of a waits behind nothing, if it is asked for before the first weights.
    if (warp_ < line_warps) {
      const std::uint32_t last_matrix = (end_ - 1) / args_.row_tiles;
      LineRaw first = load(first_matrix_, 0), second{};
      const bool both = args_.buffers == 2 && last_matrix > first_matrix_;
      if (both) second = load(first_matrix_ + 1, 0);
      __syncthreads();
      const float factor = make_units(first_matrix_, first, 0);
      multiply(last_matrix, factor, both ? make_units(first_matrix_ + 1, second, 1) : factor);
    } else if (warp_ < line_warps + line_copy_warps) {
      __syncthreads();
      copy(warp_ - line_warps);
    } else {
      Globals globals = load_globals(first_matrix_);
      __syncthreads();
      finish(globals);
    }
  }

  // A row of a: the lane's 32 elements of stage lane / 4 + 8 round, where there are some.

  __device__ int stage_of(int round) const { return lane_ / 4 + 8 * round; }
  __device__ bool has(int stage) const {
    return stage < args_.stages && stage * line_columns + warp_ * warp_columns < args_.k;
  }
  __device__ LineRaw load(std::uint32_t matrix, int round) const {
    const int stage = stage_of(round);
    if (!has(stage)) return {};
    return Units::load(args_, matrix,
                       stage * line_columns + warp_ * warp_columns + 32 * (lane_ % 4));
  }
  __device__ LineUnitsPlace place(int buffer, int stage) const {
    const int index = (buffer * line_warps + warp_) * args_.stages + stage;
    return {base_ + args_.shared.units + index * line_units_bytes,
            base_ + args_.shared.unit_scales + index * line_unit_scales_bytes};
  }

  /// `raw`: of round 0. What this warp's sums are to be multiplied by.
  __device__ float make_units(std::uint32_t matrix, const LineRaw& raw, int buffer) {
    const int rounds = (args_.stages + 7) / 8;
    unsigned int largest = Units::largest(args_, raw);
    for (int round = 1; round < rounds; ++round)
      largest = max(largest, Units::largest(args_, load(matrix, round)));
    largest = __reduce_max_sync(0xFFFFFFFFu, largest);
    __syncwarp();  // what was in the buffer is read
    for (int round = 0; round < rounds; ++round) {
      const int stage = stage_of(round);
      if (!has(stage)) continue;
      Units::store(args_, round == 0 ? raw : load(matrix, round), largest, lane_ % 4,
                   place(buffer, stage));
    }
    __syncwarp();
    return Units::largest_to_factor(args_, largest);
  }

  // The warps that multiply.

  /// Factors of the first matrix and the next.
  __device__ void multiply(std::uint32_t last_matrix, float factor, float next_factor) {
    const int g = lane_ / 4, t = lane_ % 4, column = warp_ * warp_columns;
    const int own_stages = static_cast<int>((args_.k - column + line_columns - 1) / line_columns);
    uint4 plus{}, minus{};  // of a; zeros stay where this lane's are not those of column g
    std::uint32_t matrix = first_matrix_, tile = first_tile_;
    int buffer = 0;
    for (std::uint32_t i = begin_; i < end_; ++i) {
      float sums[2] = {};
      LineUnitsPlace from = place(buffer, 0);
      from.units += 16 * g;
      from.scales += 8 * t;
#pragma unroll 1
      for (int stage = 0; stage < args_.stages; ++stage) {
        ring_.wait_full();
        if (stage < own_stages) {
          const Weights weights =
              Weights::read(base_ + ring_.at() * line_stage_bytes(Block), column, lane_);
          if (g / 2 == t) {
            plus = ptx::ld_shared_v4(from.units);
            minus = ptx::ld_shared_v4(from.units + 128);
          }
          ring_.arrive_empty(lane_);
          By<Block>::multiply(weights, plus, minus, from.scales, sums);
          from.units += line_units_bytes;
          from.scales += line_unit_scales_bytes;
        } else {
          ring_.arrive_empty(lane_);
        }
        ring_.next();
      }
      slots_.wait_empty();
      const std::uint32_t to = slot() + warp_ * (line_rows * 16) + 4 * lane_;
      ptx::st_shared_f32(to, __fmul_rn(sums[0], factor));
      ptx::st_shared_f32(to + 128, __fmul_rn(sums[1], factor));
      slots_.arrive_full(lane_);
      slots_.next();
      if (++tile < args_.row_tiles || i + 1 == end_) continue;
      tile = 0;
      ++matrix;
      if (args_.buffers == 2) {
        buffer ^= 1;
        factor = next_factor;
        if (matrix < last_matrix)
          next_factor = make_units(matrix + 1, load(matrix + 1, 0), buffer ^ 1);
      } else {
        factor = make_units(matrix, load(matrix, 0), 0);
      }
    }
  }
  __device__ std::uint32_t slot() const {
    return base_ + args_.shared.slots + slots_.at() * line_slot_bytes;
  }

  // The warps that copy: of each, lanes 0 to 3 codes of a row each, lanes 4 to 7 scales.

  __device__ void copy(int copier) {
    constexpr int lines = line_rows / line_copy_warps;
    const bool codes = lane_ < lines, copies = lane_ < 2 * lines;
    const int line = copier * lines + lane_ % lines;
    const std::uint8_t* const from = codes ? args_.b : args_.b_scales;
    const auto line_bytes = static_cast<std::uint32_t>(codes ? args_.k / 2 : args_.k / Block);
    const std::uint32_t bytes = codes ? line_code_bytes : line_columns / Block,
                        last_bytes = line_bytes - (args_.stages - 1) * bytes;
    const auto last_columns =
        static_cast<std::uint32_t>(args_.k - (args_.stages - 1) * std::int64_t{line_columns});
    constexpr std::uint32_t all = lines * (line_code_bytes + line_columns / Block);
    const std::uint32_t last_all = lines * (last_columns / 2 + last_columns / Block);
    const std::uint32_t to =
        base_ + (codes ? line * line_code_pitch
                       : line_rows * line_code_pitch + line * line_scale_pitch(Block));
    std::uint32_t matrix = first_matrix_, tile = first_tile_;
    const int stages = args_.stages;
    for (std::uint32_t i = begin_; i < end_; ++i) {
      // Rows beyond the last are the last: what becomes of them is not stored.
      const std::int64_t row = std::int64_t{tile} * line_rows + line;
      const std::uint8_t* at =
          from + (matrix * args_.n + (row < args_.n ? row : args_.n - 1)) * line_bytes;
#pragma unroll 1
      for (int stage = 1; stage <= stages; ++stage) {
        const bool last = stage == stages;
        ring_.wait_empty();
        if (lane_ == 0) ptx::mbarrier_arrive_expect_tx(ring_.full(), last ? last_all : all);
        __syncwarp();
        if (copies)
          ptx::cp_async_bulk_shared_cluster_global_mbarrier(
              to + ring_.at() * line_stage_bytes(Block), at, last ? last_bytes : bytes,
              ring_.full());
        __syncwarp();
        at += bytes;
        ring_.next();
      }
      if (++tile == args_.row_tiles) tile = 0, ++matrix;
    }
  }

  // The warp that stores: lanes 0 to 15 a row each of the first eight warps' sums, the others of
  // the last eight.

  struct Globals {
    float a, b;
  };
  __device__ Globals load_globals(std::uint32_t matrix) const {
    const ProductOutput& out = args_.output;
    return {out.a_global == nullptr ? 1.0f : __ldg(out.a_global + matrix * out.a_global_step),
            out.b_global == nullptr ? 1.0f : __ldg(out.b_global + matrix * out.b_global_step)};
  }

  __device__ void finish(Globals globals) {
    const ProductOutput& out = args_.output;
    const int line = lane_ % line_rows, half = lane_ / line_rows;
    std::uint32_t matrix = first_matrix_, tile = first_tile_;
    const float weight = out.row_weights == nullptr ? 1.0f : out.row_weights[0];
    for (std::uint32_t i = begin_; i < end_; ++i) {
      const ProductFactors factors{__fmul_rn(__fmul_rn(globals.a, globals.b), out.alpha), 0.0f};
      const std::int64_t col = std::int64_t{tile} * line_rows + line;
      const bool stored = col < args_.n && half == 0;
      const ProductBias bias = stored ? product_bias(out, matrix, col) : ProductBias{-0.0f, -0.0f};
      slots_.wait_full();
      float sum = 0.0f;
      const std::uint32_t from = slot() + half * (line_slot_bytes / 2) + line * 16;
#pragma unroll
      for (int w = 0; w < line_warps / 2; ++w) {
        const uint4 four = ptx::ld_shared_v4(from + w * (line_rows * 16));
        sum =
            __fadd_rn(sum, __fadd_rn(__fadd_rn(__uint_as_float(four.x), __uint_as_float(four.y)),
                                     __fadd_rn(__uint_as_float(four.z), __uint_as_float(four.w))));
      }
      slots_.arrive_empty(lane_);
      slots_.next();
      sum = __fadd_rn(sum, __shfl_xor_sync(0xFFFFFFFFu, sum, line_rows));
      if (stored)
        store_element(out.d, out.d_type, matrix * out.d_matrix + col,
                      finished<false>(out, factors, bias, weight, sum, 0.0f));
      if (++tile == args_.row_tiles) {
        tile = 0;
        ++matrix;
        if (i + 1 < end_) globals = load_globals(matrix);
      }
    }
  }

  const MatmulLineArgs& args_;
  const std::uint32_t base_;
  const int lane_, warp_;
  LineRing ring_, slots_;
  const std::uint32_t begin_, end_;  // row tiles of all matrices
  const std::uint32_t first_matrix_, first_tile_;
};

}  // namespace microscale::cuda

#define MICROSCALE_MATMUL_LINE_STREAM_ENTRY(name, block, by)                      \
  extern "C" __global__ void __launch_bounds__(microscale::cuda::line_threads, 1) \
      name(const __grid_constant__ microscale::cuda::MatmulLineArgs args) {       \
    microscale::cuda::LineProduct<block, microscale::cuda::by>::run(args);        \
  }
