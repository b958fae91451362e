// Plain weights to tiles in the order of a warp's lanes (layouts/fragment_tiles.hpp).
#include "cuda/matmul_args.hpp"
#include "cuda/tile/grid_order.cuh"
#include "layouts/fragment_tiles.hpp"
#include "layouts/tiled_128x4.hpp"

namespace microscale::cuda {
namespace {

// A row of a tile in the matrix it comes from; rows beyond the last, and columns, are zeros.
template <int CodeBits, int Block>
struct TileRows {
  const PackWeightsArgs& args;
  std::int64_t matrix, row_tile, first_col;

  struct Place {
    const std::uint8_t *codes, *scales;
    std::int64_t row;
    bool tiled;
  };
  __device__ Place place(int row) const {
    const bool gated = args.up_codes != nullptr, up = gated && row >= 8;
    const std::int64_t codes = args.rows * args.cols * CodeBits / 8;
    return {(up ? args.up_codes : args.codes) + matrix * codes,
            up ? args.up_scales + matrix * args.up_scale_matrix
               : args.scales + matrix * args.scale_matrix,
            gated ? row_tile * 8 + row % 8 : row_tile * 16 + row,
            (up ? args.up_tiled : args.tiled) != 0};
  }
  __device__ std::uint8_t code(int row, int col) const {
    const Place p = place(row);
    const std::int64_t column = first_col + col;
    if (p.row >= args.rows || column >= args.cols) return 0;
    const std::int64_t element = p.row * args.cols + column;
    if constexpr (CodeBits == 8) return p.codes[element];
    return p.codes[element / 2] >> (element % 2 * 4) & 15;
  }
  __device__ std::uint8_t scale(int row, int b) const {
    const Place p = place(row);
    const std::int64_t blocks = args.cols / Block, at = first_col / Block + b;
    if (p.row >= args.rows || at >= blocks) return 0;
    return p.scales[p.tiled ? tiled_128x4::offset(p.row, at, blocks) : p.row * blocks + at];
  }
};

template <int CodeBits, int Block>
__device__ void pack(const PackWeightsArgs& args) {
  namespace tiles = fragment_tiles;
  const std::int64_t index = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x, tile = index / 32;
  const int lane = static_cast<int>(index % 32);
  const std::int64_t across = tiles::col_tiles(args.cols),
                     down = tiles::row_tiles(args.rows, args.up_codes != nullptr);
  if (tile >= across * down * args.matrices) return;
  const TileRows<CodeBits, Block> rows{args, tile / (across * down), tile / across % down,
                                       tile % across * tiles::tile_cols};
  std::uint8_t* out = args.packed + tile * tiles::tile_bytes(CodeBits, Block);
#pragma unroll 1
  for (int step = 0; step < 4; ++step) {
    std::uint8_t bytes[CodeBits] = {};
    for (int v = 0; v < 4; ++v)
      for (int half = 0; half < 2; ++half) {
        const tiles::Element e = tiles::element(lane, step, v, half);
        const std::uint8_t code = rows.code(e.row, e.col);
        if constexpr (CodeBits == 8) {
          bytes[2 * v + half] = code;
        } else {
          const tiles::Nibble to = tiles::nibble(lane, step, v, half);
          bytes[to.byte % 4] |= tiles::placed(code, to.low);
        }
      }
    const int first = CodeBits == 8 ? tiles::byte_of(lane, step, 0, 0) : 16 * lane + 4 * step;
    for (int i = 0; i < CodeBits; ++i) out[first + i] = bytes[i];
  }
  constexpr int blocks = static_cast<int>(tiles::tile_cols) / Block;
  for (int i = lane; i < 16 * blocks; i += 32)
    out[tiles::code_bytes(CodeBits) + tiles::scale_of(i % 16, i / 16, Block)] =
        rows.scale(i % 16, i / 16);
}

}  // namespace
}  // namespace microscale::cuda

#define MICROSCALE_PACK_ENTRY(name, bits, block)                                            \
  extern "C" __global__ void __launch_bounds__(256)                                         \
      pack_weights_##name(const __grid_constant__ microscale::cuda::PackWeightsArgs args) { \
    microscale::cuda::follow_previous_grid();                                               \
    microscale::cuda::pack<bits, block>(args);                                              \
  }

MICROSCALE_PACK_ENTRY(nvfp4, 4, 16)
MICROSCALE_PACK_ENTRY(mxfp4, 4, 32)
MICROSCALE_PACK_ENTRY(mxfp8, 8, 32)
