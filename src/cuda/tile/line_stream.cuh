// Products of one row of a with plain 4-bit weights on Hopper, at the speed of memory. A block
// stays on its multiprocessor and takes its share of the row tiles of all matrices. Four warps copy
// 2048 columns of 16 rows at a time into a ring of stages, a linear bulk copy a row and operand, as
// long as they can be; 16 warps multiply 128 columns of each stage; one more warp adds up what they
// find and stores it, so that none of them waits for the end of a row tile.
//
// Two blocks of a cluster may halve its row tiles, that in the middle along k: the second one,
// which begins with it, sends its sums to the first one, which ends with it.
//
// Sums are added in an order that depends on shapes and the device alone: of a lane along k, of
// four lanes, of eight warps in a row, of both halves, of both blocks.
#pragma once

#include <cstdint>

#include "cuda/line_stream_args.hpp"
#include "cuda/ptx/async_copy.cuh"
#include "cuda/ptx/cluster.cuh"
#include "cuda/ptx/elect.cuh"
#include "cuda/ptx/mbarrier.cuh"
#include "cuda/ptx/memory.cuh"
#include "cuda/ptx/wgmma.cuh"
#include "cuda/tile/grid_order.cuh"
#include "cuda/tile/line_bias.cuh"
#include "cuda/tile/line_ring.cuh"
#include "cuda/tile/line_weights.cuh"
#include "cuda/tile/product_output.cuh"
#include "layouts/tiled_128x4.hpp"

namespace microscale::cuda {

template <int Block, template <int> class By>
class LineStream {
  using Units = typename By<Block>::Units;
  using Weights = LineWeights<Block>;

 public:
  __device__ static void run(const LineStreamArgs& args) {
    extern __shared__ __align__(128) unsigned char memory[];
    LineStream product(args, static_cast<std::uint32_t>(__cvta_generic_to_shared(memory)));
    product.run();
  }

 private:
  /// Stages of row tiles: [stage, stages) of `tile`, all of those in between, and the first `last`
  /// of the one before `end`. Tiles count through all matrices.
  struct Share {
    std::uint32_t begin, end;
    int stage, last;
  };

  /// Two blocks of a cluster halve its row tiles; the one in the middle may be in two parts.
  __device__ static Share share_of(const LineStreamArgs& args, std::uint32_t rank) {
    const std::uint32_t clusters = gridDim.x / args.cluster, cluster = blockIdx.x / args.cluster,
                        first = line_share(args.tiles, cluster, clusters),
                        tiles = line_share(args.tiles, cluster + 1, clusters) - first;
    const auto stages = static_cast<std::uint32_t>(args.stages);
    if (args.cluster == 1) return {first, first + tiles, 0, args.stages};
    const std::uint32_t all = tiles * stages, half = (all + 1) / 2, from = rank == 0 ? 0 : half,
                        to = rank == 0 ? half : all, tile = from / stages,
                        end = from == to ? tile : (to + stages - 1) / stages;
    return {first + tile, first + end, static_cast<int>(from - tile * stages),
            static_cast<int>(to - (end - 1) * stages)};
  }

  __device__ LineStream(const LineStreamArgs& args, std::uint32_t base)
      : args_(args),
        base_(base),
        rank_(args.cluster == 1 ? 0 : ptx::mov_cluster_ctarank()),
        lane_(static_cast<int>(threadIdx.x & 31)),
        warp_(static_cast<int>(threadIdx.x >> 5)),
        ring_(base + args.shared.barriers, args.depth),
        slots_(base + args.shared.barriers + 16 * args.depth, line_slots),
        share_(share_of(args, rank_)),
        first_matrix_(share_.begin / args.row_tiles),
        first_tile_(share_.begin - first_matrix_ * args.row_tiles) {}

  __device__ void run() {
    constexpr int stores = line_warps + line_copy_warps;
    const int multiply_warps = static_cast<int>(args_.k < line_columns ? args_.k / warp_columns
                                                                       : std::int64_t{line_warps});
    if (warp_ == line_warps) ring_.init(line_copy_warps, multiply_warps);
    if (warp_ == stores) slots_.init(multiply_warps, 1);
    follow_previous_grid();
    const bool multiplies = warp_ < multiply_warps, some = share_.begin < share_.end;
    const std::uint32_t last_matrix = some ? (share_.end - 1) / args_.row_tiles : first_matrix_;
    const bool both = args_.buffers == 2 && last_matrix > first_matrix_;
    LineRaw first{}, second{};
    Globals globals{}, next{};
    LineBias bias(args_, base_ + args_.shared.bias, share_.begin, share_.end);
    // What is read of a waits behind nothing, if it is asked for before the first weights.
    if (multiplies) {
      if (some) first = load(first_matrix_, 0);
      if (both) second = load(first_matrix_ + 1, 0);
    } else if (warp_ < line_warps) {  // k is too short for it
      clear_sums();
    } else if (warp_ >= stores) {
      globals = load_globals(first_matrix_);
      next = load_globals(first_matrix_ + 1);
      bias.ask();
    }
    together();
    if (multiplies) {
      const float factor = make_units(first_matrix_, first, 0);
      multiply(last_matrix, factor, both ? make_units(first_matrix_ + 1, second, 1) : factor);
    } else if (warp_ >= stores) {
      if (finish(globals, next, bias)) return;
    } else if (warp_ >= line_warps) {
      copy(warp_ - line_warps);
    }
    if (args_.cluster > 1) ptx::barrier_cluster_wait_acquire();
  }

  /// What a warp without columns would add, in all slots.
  __device__ void clear_sums() const {
    for (int i = lane_; i < line_slots * line_rows * 4; i += 32)
      ptx::st_shared_f32(base_ + args_.shared.slots + i / (line_rows * 4) * line_slot_bytes +
                             warp_ * (line_rows * 16) + i % (line_rows * 4) * 4,
                         0.0f);
  }

  /// All threads, once and in one place, as `__syncthreads` wants it. Who stores in the second block
  /// of a cluster says more to the first one later.
  __device__ void together() const {
    if (args_.cluster == 1) return __syncthreads();
    ptx::barrier_cluster_arrive_release();
    ptx::barrier_cluster_wait_acquire();
    if (rank_ == 0 || warp_ < line_warps + line_copy_warps) ptx::barrier_cluster_arrive_release();
  }

  __device__ int begin_stage(std::uint32_t tile) const {
    return tile == share_.begin ? share_.stage : 0;
  }
  __device__ int end_stage(std::uint32_t tile) const {
    return tile + 1 == share_.end ? share_.last : args_.stages;
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
    typename Weights::Place weights_at(base_, column, lane_, args_.b_tiled != 0);
    ptx::keep_in_place(weights_at.addresses);  // or they are computed anew for each stage
    const bool is_column = g / 2 == t;
    uint4 plus{}, minus{};  // of a; zeros stay where this lane's are not those of column g
    std::uint32_t matrix = first_matrix_, tile = first_tile_;
    int buffer = 0;
    for (std::uint32_t i = share_.begin; i < share_.end; ++i) {
      float sums[2] = {};
      int stage = begin_stage(i);
      const int end = end_stage(i), own_end = end < own_stages ? end : own_stages;
      LineUnitsPlace from = place(buffer, stage);
      from.units += 16 * g;
      from.scales += 8 * t;
#pragma unroll 1
      for (; stage < own_end; ++stage) {
        ring_.wait_full();
        const Weights weights = Weights::read(weights_at, ring_.at());
        if (is_column) {
          plus = ptx::ld_shared_v4(from.units);
          minus = ptx::ld_shared_v4(from.units + 128);
        }
        ring_.arrive_empty();
        By<Block>::multiply(weights, plus, minus, from.scales, sums);
        from.units += line_units_bytes;
        from.scales += line_unit_scales_bytes;
        ring_.next();
      }
      if (stage < end) {  // the last one, which does not reach this warp's columns
        ring_.wait_full();
        ring_.arrive_empty();
        ring_.next();
      }
      slots_.wait_empty();
      const std::uint32_t to = slot() + warp_ * (line_rows * 16) + 4 * lane_;
      ptx::st_shared_f32(to, __fmul_rn(sums[0], factor));
      ptx::st_shared_f32(to + 128, __fmul_rn(sums[1], factor));
      slots_.arrive_full();
      slots_.next();
      if (++tile < args_.row_tiles || i + 1 == share_.end) continue;
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

  // The warps that copy eight rows each, whose scales are as many copies or, in tiles, 64 bytes of
  // all rows' of four blocks a copy.

  __device__ void copy(std::uint32_t copier) {
    constexpr int lines = line_rows / line_copy_warps, groups = line_columns / (4 * Block),
                  own_groups = groups / line_copy_warps;
    constexpr std::uint32_t scale_bytes = line_columns / Block, group_bytes = 4 * line_rows;
    const bool tiled = args_.b_tiled != 0;
    const auto code_line = static_cast<std::uint32_t>(args_.k / 2),
               scale_line = static_cast<std::uint32_t>(args_.k / Block),
               all_groups = scale_line / 4;
    const int last_groups = static_cast<int>(all_groups) - (args_.stages - 1) * groups,
              left_groups = last_groups - static_cast<int>(copier) * own_groups;
    const std::uint32_t codes_to = base_ + copier * lines * line_code_pitch,
                        scales_to = base_ + line_rows * line_code_pitch +
                                    copier * (tiled ? own_groups * group_bytes
                                                    : lines * line_scale_pitch(Block)),
                        step = tiled ? groups * tiled_128x4::tile_bytes : scale_bytes;
    std::uint32_t matrix = first_matrix_, tile = first_tile_;
    for (std::uint32_t i = share_.begin; i < share_.end; ++i) {
      int stage = begin_stage(i);
      const int end = end_stage(i);
      std::uint32_t further[lines];        // rows, from the first
      const auto row_at = [&](int line) {  // beyond the last the last one: it is not stored
        const std::int64_t row = line_row(args_, tile, copier * lines + line);
        return row < args_.n ? row : args_.n - 1;
      };
      const std::int64_t first = row_at(0), first_line = matrix * args_.n + first;
#pragma unroll
      for (int j = 0; j < lines; ++j) further[j] = static_cast<std::uint32_t>(row_at(j) - first);
      const std::uint8_t* codes = args_.b + first_line * code_line + stage * line_code_bytes;
      const std::uint8_t* scales =
          args_.b_scales + stage * step +
          (tiled ? matrix * args_.b_scale_matrix + tile % line_tile_parts * group_bytes +
                       (std::int64_t{tile / line_tile_parts} * all_groups + copier * own_groups) *
                           tiled_128x4::tile_bytes
                 : first_line * scale_line);
#pragma unroll 1
      for (; stage < end; ++stage) {
        const bool last = stage + 1 == args_.stages;
        const std::uint32_t of_codes = last ? last_groups * 2 * Block : line_code_bytes,
                            of_scales = last ? last_groups * 4 : scale_bytes;
        const int own = !last || left_groups > own_groups ? own_groups
                        : left_groups > 0                 ? left_groups
                                                          : 0;
        ring_.wait_empty();
        if (ptx::elect_sync()) {
          const std::uint32_t at = ring_.at() * line_stage_bytes(Block), full = ring_.full();
          ptx::mbarrier_arrive_expect_tx(
              full, lines * of_codes + (tiled ? own * group_bytes : lines * of_scales));
#pragma unroll
          for (int j = 0; j < lines; ++j)
            ptx::cp_async_bulk_shared_cluster_global_mbarrier(codes_to + at + j * line_code_pitch,
                                                              codes + further[j] * code_line,
                                                              of_codes, full);
          if (tiled) {
            for (int j = 0; j < own; ++j)
              ptx::cp_async_bulk_shared_cluster_global_mbarrier(
                  scales_to + at + j * group_bytes, scales + j * tiled_128x4::tile_bytes,
                  group_bytes, full);
          } else {
#pragma unroll
            for (int j = 0; j < lines; ++j)
              ptx::cp_async_bulk_shared_cluster_global_mbarrier(
                  scales_to + at + j * line_scale_pitch(Block), scales + further[j] * scale_line,
                  of_scales, full);
          }
        }
        __syncwarp();
        codes += line_code_bytes;
        scales += step;
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
    if (matrix * args_.row_tiles >= share_.end) return {1.0f, 1.0f};
    return {out.a_global == nullptr ? 1.0f : __ldg(out.a_global + matrix * out.a_global_step),
            out.b_global == nullptr ? 1.0f : __ldg(out.b_global + matrix * out.b_global_step)};
  }

  /// All warps' sums of a row, in lanes 0 to 15 and again in the others.
  __device__ float add_up(int line) {
    slots_.wait_full();
    float sum = 0.0f;
    const std::uint32_t from = slot() + lane_ / line_rows * (line_slot_bytes / 2) + line * 16;
#pragma unroll
    for (int w = 0; w < line_warps / 2; ++w) {
      const uint4 four = ptx::ld_shared_v4(from + w * (line_rows * 16));
      sum = __fadd_rn(sum, __fadd_rn(__fadd_rn(__uint_as_float(four.x), __uint_as_float(four.y)),
                                     __fadd_rn(__uint_as_float(four.z), __uint_as_float(four.w))));
    }
    slots_.arrive_empty();
    slots_.next();
    return __fadd_rn(sum, __shfl_xor_sync(0xFFFFFFFFu, sum, line_rows));
  }

  /// Whether it has waited for the other block.
  __device__ bool finish(Globals globals, Globals next, LineBias& biases) {
    const ProductOutput& out = args_.output;
    const int line = lane_ % line_rows;
    const std::uint32_t mailbox = base_ + args_.shared.mailbox + 4 * line;
    std::uint32_t matrix = first_matrix_, tile = first_tile_, i = share_.begin;
    const auto go_on = [&] {
      ++i;
      if (++tile < args_.row_tiles) return;
      tile = 0;
      ++matrix;
      globals = next;
      next = load_globals(matrix + 1);
    };
    if (rank_ > 0) {  // the end of a row tile that the other block stores
      if (share_.begin < share_.end && share_.stage > 0) {
        biases.at(i, line);
        const float sum = add_up(line);
        if (lane_ < line_rows)
          ptx::st_shared_cluster_f32(ptx::mapa_shared_cluster(mailbox, 0), sum);
        go_on();
      }
      ptx::barrier_cluster_arrive_release();
    }
    const float weight = out.row_weights == nullptr ? 1.0f : out.row_weights[0];
    for (; i < share_.end; go_on()) {
      const ProductFactors factors{__fmul_rn(__fmul_rn(globals.a, globals.b), out.alpha), 0.0f};
      const std::int64_t col = line_row(args_, tile, line);
      const ProductBias bias{biases.at(i, line), -0.0f};
      float sum = add_up(line);
      if (end_stage(i) < args_.stages) {
        ptx::barrier_cluster_wait_acquire();
        sum = __fadd_rn(sum, __uint_as_float(ptx::ld_shared_b32(mailbox)));
      }
      if (col < args_.n && lane_ < line_rows)
        store_element(out.d, out.d_type, matrix * out.d_matrix + col,
                      finished<false>(out, factors, bias, weight, sum, 0.0f));
    }
    return rank_ == 0 && share_.begin < share_.end && share_.last < args_.stages;
  }

  const LineStreamArgs& args_;
  const std::uint32_t base_, rank_;  // of the cluster
  const int lane_, warp_;
  LineRing ring_, slots_;
  const Share share_;
  const std::uint32_t first_matrix_, first_tile_;
};

}  // namespace microscale::cuda

#define MICROSCALE_LINE_STREAM_ENTRY(name, block, by)                             \
  extern "C" __global__ void __launch_bounds__(microscale::cuda::line_threads, 1) \
      name(const __grid_constant__ microscale::cuda::LineStreamArgs args) {       \
    microscale::cuda::LineStream<block, microscale::cuda::by>::run(args);         \
  }
