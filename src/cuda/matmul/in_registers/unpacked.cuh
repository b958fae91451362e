// NVFP4 weights as they lie in a checkpoint, for the kernels of many rows: no pass that packs them.
//
// A stage has tiles of 16 rows x 64, like those of packed weights (of a gate and an up eight each):
// 32 bytes of codes a row, then 4 scales a row. Lane 4 g + t takes the block t of rows g and g + 8,
// so a scale is one for all that it has of a row. Which elements of k an instruction multiplies
// does not matter, if both operands have the same: step `s` takes of block t elements s and s + 4,
// and of its second half s + 8 and s + 12, since these are what a word's shifts bring side by side
// (decode.cuh). Of a row of 64 elements of a, element 16 t + 8 h + 4 i + s is the one at
// 16 s + 8 h + 2 t + i (PrepareTilesArgs::by_blocks).
#pragma once

#include <cstdint>

#include "cuda/block/decode.cuh"
#include "cuda/block/grid_order.cuh"
#include "cuda/block/stage_ring.cuh"
#include "cuda/matmul/in_registers/args.hpp"
#include "cuda/matmul/in_registers/walk.cuh"
#include "cuda/matmul/in_registers/weights.cuh"
#include "cuda/ptx/async_copy.cuh"
#include "cuda/ptx/mbarrier.cuh"
#include "cuda/ptx/memory.cuh"
#include "cuda/ptx/packed.cuh"
#include "layouts/tiled_128x4.hpp"

namespace microscale::cuda::in_registers {

/// Elements as of Nvfp4F16Weights.
struct UnpackedNvfp4Weights : AsF16 {
  static constexpr bool unpacked = true;
  static constexpr int tile_bytes = Nvfp4Weights::tile_bytes;
  static constexpr float sum_factor = 128.0f;
  struct Tile {
    std::uint32_t odd[4], even[4];  // nibbles of both words of row g, then of row g + 8
    std::uint32_t row, row8;        // scales
  };
  __device__ static std::uint32_t codes_of(std::uint32_t lane) {
    return lane / 4 * 32 + lane % 4 * 8;
  }
  __device__ static std::uint32_t scales_of(std::uint32_t lane) {
    return 512 + lane / 4 * 4 + lane % 4;
  }
  __device__ static Tile read(std::uint32_t codes, std::uint32_t scales) {
    const uint2 low = ptx::ld_shared_v2(codes), high = ptx::ld_shared_v2(codes + 256);
    const std::uint32_t words[4] = {low.x, low.y, high.x, high.y},
                        bytes = ptx::ld_shared_u8(scales) + ptx::ld_shared_u8(scales + 32) * 256u,
                        pair = ptx::mul_rn_f16x2(ptx::cvt_rn_f16x2_e4m3x2(bytes & 0x7F7Fu),
                                                 0x58005800u);  // 2^7
    Tile t;
    t.row = ptx::prmt_b32(pair, 0, 0x1010);
    t.row8 = ptx::prmt_b32(pair, 0, 0x3232);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const NibbleBytes bytes_of_word = nibble_bytes(words[i]);
      t.odd[i] = bytes_of_word.odd;
      t.even[i] = bytes_of_word.even;
    }
    return t;
  }
  __device__ static void fragment(const Tile& t, int step, std::uint32_t (&a)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {  // rows g and g + 8 in turn, first words before second ones
      const int word = i % 2 * 2 + i / 2;
      const std::uint32_t bytes = step % 2 == 0 ? t.even[word] : t.odd[word];
      a[i] = ptx::mul_rn_f16x2((step < 2 ? bytes << 8 : bytes) & e2m1_kept,
                               i % 2 == 0 ? t.row : t.row8);
    }
  }
};

inline constexpr int loading_threads = 64;
using LoadStart = BlockStart<14, loading_threads>;

/// What these threads do: codes by pieces of 16 bytes, two a row, and scales by 4; a stage is full
/// when they have come. Rows beyond n are the last one again.
template <int Rows, int Tokens, class Weights, class Ring>
__device__ void load_unpacked_weights(const Args& args, std::uint32_t base, std::uint32_t thread,
                                      Ring ring) {
  if constexpr (Weights::unpacked) {
    constexpr int tile_bytes = Weights::tile_bytes, pieces = Rows / 32, fours = Rows / 64;
    constexpr TileShape shape = tile_shape(Rows, Tokens);
    constexpr SharedLayout shared = shared_layout(shape, tile_bytes);
    constexpr int stage_chunks = shape.stage_chunks(), next_tile = stage_chunks * tile_bytes;
    const bool gated = args.output.gated != 0;
    // Row `thread` / 2 of the tile of d and every 32nd behind it; of scales row `thread`, every
    // 64th.
    const std::uint32_t own = thread / 2;
    const auto row_of = [&](std::uint32_t row) { return gated ? row / 16 * 8 + row % 8 : row; };
    const std::uint32_t apart = gated ? 16 : 32;
    const UnpackedArgs &codes_side = args.unpacked[gated && own % 16 >= 8],
                       &scales_side = args.unpacked[gated && thread % 16 >= 8];
    const std::uint32_t codes_to = base + shared.weights + own / 16 * next_tile + own % 16 * 32 +
                                   thread % 2 * 16,
                        scales_to =
                            base + shared.weights + thread / 16 * next_tile + 512 + thread % 16 * 4;
    const auto last = static_cast<std::uint32_t>(args.n - 1),
               blocks = static_cast<std::uint32_t>(args.k / 16),
               scale_step = scales_side.tiled ? 512u : 4u;
    const std::int64_t row_bytes = args.k / 2;
    TileUnits<Weights, Rows, Tokens> units(args);
    TileUnit unit;
    LoadStart start;
#pragma unroll 1
    while (units.next(unit)) {
      const TilePlace& at = unit.place;
      const std::uint32_t row = at.column_tile * (gated ? Rows / 2 : Rows);
      const std::uint8_t* codes[pieces];
      const std::uint8_t* scales[fours];
#pragma unroll
      for (int i = 0; i < pieces; ++i)
        codes[i] = codes_side.codes + at.matrix * codes_side.codes_matrix +
                   min(row + row_of(own) + i * apart, last) * row_bytes + unit.first * 32 +
                   thread % 2 * 16;
#pragma unroll
      for (int i = 0; i < fours; ++i) {
        const std::int64_t of = min(row + row_of(thread) + i * 2 * apart, last);
        scales[i] = scales_side.scales + at.matrix * scales_side.scales_matrix +
                    (scales_side.tiled ? tiled_128x4::offset(of, 0, blocks) : of * blocks) +
                    unit.first * scale_step;
      }
      start.meet();
      if (!args.constant) follow_previous_grid();
#pragma unroll 1
      for (std::uint32_t chunk = unit.first; chunk < unit.end; chunk += stage_chunks, ring.next()) {
        ring.wait_empty();
#pragma unroll
        for (int of = 0; of < stage_chunks; ++of) {
          if (of > 0 && chunk + of >= unit.end) break;
          const std::uint32_t to = ring.stage() * (Rows / 16 * next_tile) + of * tile_bytes;
#pragma unroll
          for (int i = 0; i < pieces; ++i)
            ptx::cp_async_cg_shared_global_l2_128b_16(codes_to + to + i * 2 * next_tile,
                                                      codes[i] + 32 * of);
#pragma unroll
          for (int i = 0; i < fours; ++i)
            ptx::cp_async_ca_shared_global_4(scales_to + to + i * 4 * next_tile,
                                             scales[i] + of * scale_step);
        }
#pragma unroll
        for (auto& from : codes) from += 32 * stage_chunks;
#pragma unroll
        for (auto& from : scales) from += stage_chunks * scale_step;
        ptx::cp_async_mbarrier_arrive_noinc(ring.full());
      }
    }
    start.meet();
    ring.wait_empty();
    ptx::mbarrier_arrive(ring.full());  // the stage that says that this was the end
  }
}

}  // namespace microscale::cuda::in_registers
