// The matrix product of two block-scaled operands on sm_120f. A thread block of four warps makes
// 128 x 128 sums, a warp 64 x 64 in its registers: ldmatrix brings fragments from shared memory,
// which three stages of cp.async fill, and the matrix instruction takes codes and scales as they
// are. Sums begin at zero and take the instruction's parts of K (64 elements of FP4, 32 of FP8) in
// order; split, four of them do so with a quarter of the stages each and are added in order.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/block/grid_order.cuh"
#include "cuda/matmul/block_scaled/operands.cuh"
#include "cuda/matmul/block_scaled/store.cuh"
#include "cuda/ptx/mma.cuh"

namespace microscale::cuda::block_scaled {

// A pair of formats: bits of a code on either side, elements of a block, and its instruction on 32
// bytes of a; Step is which of a stage's two.
struct Nvfp4 {
  static constexpr int a_bits = 4, b_bits = 4, block = 16;
  template <int Step, int Lane>
  __device__ static void multiply(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                  std::uint32_t b1, std::uint32_t scale_a, std::uint32_t scale_b) {
    ptx::mma_m16n8k64_mxf4nvf4_4x_ue4m3<0, Lane>(d, a, b0, b1, scale_a, scale_b);
  }
};
struct Mxfp4 {
  static constexpr int a_bits = 4, b_bits = 4, block = 32;
  template <int Step, int Lane>
  __device__ static void multiply(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                  std::uint32_t b1, std::uint32_t scale_a, std::uint32_t scale_b) {
    ptx::mma_m16n8k64_mxf4nvf4_2x_ue8m0<2 * Step, Lane>(d, a, b0, b1, scale_a, scale_b);
  }
};
#define MICROSCALE_MXFP8_PAIR(Name, bits, instruction)                                            \
  struct Name {                                                                                   \
    static constexpr int a_bits = 8, b_bits = bits, block = 32;                                   \
    template <int Step, int Lane>                                                                 \
    __device__ static void multiply(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0, \
                                    std::uint32_t b1, std::uint32_t scale_a,                      \
                                    std::uint32_t scale_b) {                                      \
      ptx::instruction<Step, Lane>(d, a, b0, b1, scale_a, scale_b);                               \
    }                                                                                             \
  };
MICROSCALE_MXFP8_PAIR(E4m3E4m3, 8, mma_m16n8k32_mxf8f6f4_e4m3_e4m3)
MICROSCALE_MXFP8_PAIR(E4m3E5m2, 8, mma_m16n8k32_mxf8f6f4_e4m3_e5m2)
MICROSCALE_MXFP8_PAIR(E5m2E4m3, 8, mma_m16n8k32_mxf8f6f4_e5m2_e4m3)
MICROSCALE_MXFP8_PAIR(E5m2E5m2, 8, mma_m16n8k32_mxf8f6f4_e5m2_e5m2)
MICROSCALE_MXFP8_PAIR(E4m3E2m1, 4, mma_m16n8k32_mxf8f6f4_e4m3_e2m1)
#undef MICROSCALE_MXFP8_PAIR

using Sums = float[pieces][pieces][2][4];  // [of rows][of columns][half of them][register]

/// Words of four scales that a row has a stage, rounded up: a stage of FP8 is half of one.
template <class Pair>
inline constexpr int scale_words = 8 * stage_row_bytes / Pair::a_bits / Pair::block <= 4 ? 1 : 2;
template <class Pair>
inline constexpr bool half_word = 8 * stage_row_bytes / Pair::a_bits / Pair::block < 4;

/// Scales of a stage: of the lane's rows of a, and of b.
template <class Pair>
struct StageScales {
  std::uint32_t a[scale_words<Pair>][pieces], b[scale_words<Pair>][pieces];

  template <bool Whole>
  __device__ void load(int stage, const ScaleLoader& from_a, const ScaleLoader& from_b) {
#pragma unroll
    for (int i = 0; i < scale_words<Pair>; ++i) {
      const int column = half_word<Pair> ? stage / 2 : stage * scale_words<Pair> + i;
      from_a.load<Whole>(column, a[i]);
      from_b.load<Whole>(column, b[i]);
    }
  }
  /// The stage's own half of a word in its lower half.
  __device__ void align(int stage) {
    if constexpr (half_word<Pair>) {
#pragma unroll
      for (int j = 0; j < pieces; ++j) {
        a[0][j] >>= stage % 2 * 16;
        b[0][j] >>= stage % 2 * 16;
      }
    }
  }
};

/// What a lane names to ldmatrix: bytes of an operand's stage, for each of a stage's two steps.
struct FragmentPlace {
  std::uint32_t a[2], b[2];

  __device__ explicit FragmentPlace(const Place& place) {
    const int matrix = place.lane / 8, row = place.lane % 8;
#pragma unroll
    for (int step = 0; step < 2; ++step) {
      a[step] = static_cast<std::uint32_t>(
          chunk_at(16 * place.row_warp + 8 * (matrix % 2) + row, 2 * step + matrix / 2));
      b[step] = static_cast<std::uint32_t>(operand_stage_bytes) +
                static_cast<std::uint32_t>(chunk_at(16 * place.column_warp + 8 * (matrix / 2) + row,
                                                    2 * step + matrix % 2));
    }
  }
};

/// One step of a stage at shared address `stage`: 32 products.
template <class Pair, int Step>
__device__ inline void multiply_step(Sums& sum, std::uint32_t stage, const FragmentPlace& at,
                                     const StageScales<Pair>& scales) {
  constexpr int word = scale_words<Pair> == 2 ? Step : 0;
  constexpr std::uint32_t piece_bytes = 32 * stage_row_bytes;
  std::uint32_t a[pieces][4];
#pragma unroll
  for (int i = 0; i < pieces; ++i)
    ptx::ldmatrix_m8n8_x4_b16(a[i],
                              stage + at.a[Step] + static_cast<std::uint32_t>(i) * piece_bytes);
#pragma unroll
  for (int j = 0; j < pieces; ++j) {
    std::uint32_t b[4];
    const std::uint32_t from = stage + at.b[Step] + static_cast<std::uint32_t>(j) * piece_bytes;
    if constexpr (Pair::a_bits == 8 && Pair::b_bits == 4) {
      ptx::ldmatrix_m8n16_x4_b8x16_b4x16_p64(b, from);
#pragma unroll
      for (std::uint32_t& each : b) each <<= 2;  // to bits 5-2
    } else {
      ptx::ldmatrix_m8n8_x4_b16(b, from);
    }
#pragma unroll
    for (int i = 0; i < pieces; ++i) {
      Pair::template multiply<Step, 0>(sum[i][j][0], a[i], b[0], b[1], scales.a[word][i],
                                       scales.b[word][j]);
      Pair::template multiply<Step, 1>(sum[i][j][1], a[i], b[2], b[3], scales.a[word][i],
                                       scales.b[word][j]);
    }
  }
}

/// A tile of the product, whole. Parts: thread blocks of a cluster that share its K out.
template <class Pair, int Parts>
__device__ void multiply_tile(const MatmulBlockScaledArgs& args) {
  constexpr bool spread = Pair::a_bits == 8 && Pair::b_bits == 4;
  __shared__ alignas(128) std::uint8_t shared[shared_bytes];

  const int part = static_cast<int>(blockIdx.x) % Parts;
  const auto [tile_down, column_tile] = tile_in_bands(
      static_cast<int>(blockIdx.x) / Parts, args.tiles_down, args.column_tiles, band_tiles);
  const ProductTile tile = product_tile(args.rows, tile_down, tile_rows, args.matrix_tiles_down);
  if (tile.rows <= 0) return;
  const bool gated = args.output.gated != 0;
  const int first_column = column_tile * (gated ? tile_columns / 2 : tile_columns);

  const int thread = static_cast<int>(threadIdx.x);
  const Place place = place_of(thread);
  const int last_row = tile.rows - 1;
  const int last_column = static_cast<int>(args.n - 1) - first_column;
  const auto row_of = [&](int row) { return row < last_row ? row : last_row; };
  const auto column_of = [&](int row) {
    const int column = gated ? gated_column(row) : row;
    return column < last_column ? column : last_column;
  };

  const std::int64_t a_bytes = args.k * Pair::a_bits / 8, b_bytes = args.k * Pair::b_bits / 8;
  const bool copies_up = gated && is_up(thread / 4);
  const CodeLoader<false> a_codes(args.a + tile.first * a_bytes, a_bytes, args.wide, thread,
                                  row_of);
  const CodeLoader<spread> b_codes(
      (copies_up ? args.up : args.b) + tile.matrix * args.b_matrix + first_column * b_bytes,
      b_bytes, args.wide, thread, column_of);

  // Lanes 4 g + t with t even supply the scales of row g of a piece, those with t odd of row g + 8.
  const int blocks = static_cast<int>(args.k / Pair::block);
  const int half = place.in_group % 2;
  const std::int64_t tile_bytes = tiled_128x4::bytes(1, blocks);
  const int a_row = 16 * place.row_warp + 8 * half + place.group;
  const int b_row = 16 * place.column_warp + 8 * half + place.group;
  const bool scales_up = gated && half != 0;
  const ScaleLoader a_scales(
      args.a_scales + (args.a_tiled ? tile_down * tile_bytes : tile.first * blocks), blocks,
      args.a_tiled, args.a_align, [&](int j) { return 16 * a_row + 4 * j; },
      [&](int j) { return row_of(32 * j + a_row); });
  const bool b_tiled = scales_up ? args.up_tiled : args.b_tiled;
  const ScaleLoader b_scales((scales_up ? args.up_scales + tile.matrix * args.up_scale_matrix
                                        : args.b_scales + tile.matrix * args.b_scale_matrix) +
                                 (b_tiled ? first_column / tile_columns * tile_bytes
                                          : static_cast<std::int64_t>(first_column) * blocks),
                             blocks, b_tiled, args.b_align,
                             [&](int j) {
                               const int column = gated ? first_column % tile_columns +
                                                              gated_column(32 * j + b_row)
                                                        : 32 * j + b_row;
                               return static_cast<int>(tiled_128x4::offset(column, 0, 4));
                             },
                             [&](int j) { return column_of(32 * j + b_row); });

  const auto base = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  const int all = static_cast<int>((a_bytes + stage_row_bytes - 1) / stage_row_bytes);
  const int first = first_stage(all, part, Parts), end = first_stage(all, part + 1, Parts);
  const auto copy = [&](auto whole, int stage, std::uint32_t to) {
    if (whole.value || stage < end) {
      a_codes.template copy<whole.value>(stage, base + to);
      b_codes.template copy<whole.value>(stage, base + to + operand_stage_bytes);
    }
    ptx::cp_async_commit_group();
  };
  constexpr std::false_type any;
#pragma unroll
  for (int i = 0; i < stages - 1; ++i)
    copy(any, first + i, static_cast<std::uint32_t>(i * stage_bytes));

  const FragmentPlace fragments(place);
  Sums sum = {};
  StageScales<Pair> scales, next;
  scales.template load<false>(first, a_scales, b_scales);
  std::uint32_t from = 0, to = (stages - 1) * stage_bytes;
  const auto step = [&](auto whole, int stage) {
    ptx::cp_async_wait_group<stages - 2>();
    __syncthreads();  // the stage is there, and the one before it has been read
    copy(whole, stage + stages - 1, to);
    next.template load<whole.value>(stage + 1, a_scales, b_scales);
    scales.align(stage);
    multiply_step<Pair, 0>(sum, base + from, fragments, scales);
    multiply_step<Pair, 1>(sum, base + from, fragments, scales);
    scales = next;
    to = from;
    from = from == (stages - 1) * stage_bytes ? 0 : from + stage_bytes;
  };
  // Most stages of most shapes: what is loaded while they are computed is whole.
  int stage = first;
  if (args.wide && args.a_tiled && args.b_tiled && (!gated || args.up_tiled)) {
    const int all_whole = static_cast<int>(a_bytes / stage_row_bytes);
    const int whole = (all_whole < end ? all_whole : end) - (stages - 1);
#pragma unroll 1
    for (; stage < whole; ++stage) step(std::true_type{}, stage);
  }
#pragma unroll 1
  for (; stage < end; ++stage) step(any, stage);
  ptx::cp_async_wait_all();
  __syncthreads();
  store_sums<Parts>(args, tile, part, first_column, place,
                    reinterpret_cast<float*>(shared + thread / 32 * staged_bytes), sum);
}

}  // namespace microscale::cuda::block_scaled
