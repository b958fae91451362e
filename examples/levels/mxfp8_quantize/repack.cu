// Row-major scales to 128x4 tiles: what a quantizer that writes rows leaves to be done. One thread
// moves the four bytes of a row that lie together in a tile, so it writes words one after another
// and reads words 32 rows apart.
//
// args.codes: row-major scales, args.cols / 32 a row; args.scales: the tiles.
#include "chunk.cuh"
#include "ladder.hpp"

namespace levels {
namespace {

__global__ void repack(Args args) {
  const std::int64_t word = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const std::int64_t blocks = args.cols / block_elements, tiles = (blocks + 3) / 4;
  const std::int64_t tile = word / 128, inside = word % 128;
  const std::int64_t row = tile / tiles * 128 + inside % 4 * 32 + inside / 4,
                     block = tile % tiles * 4;
  if (row >= args.rows) return;
  std::uint32_t bytes = 0;
  if (blocks % 4 == 0) {  // one load; the byte loop would be four
    bytes = microscale::ptx::ld_global_nc_b32(args.codes + row * blocks + block);
  } else {
    for (int i = 0; i < 4; ++i)
      if (block + i < blocks)
        bytes |= static_cast<std::uint32_t>(args.codes[row * blocks + block + i]) << (8 * i);
  }
  microscale::ptx::st_global_b32(args.scales + word * 4, bytes);
}

}  // namespace

Level repack_level() {
  return {.name = "repack",
          .kernel = reinterpret_cast<const void*>(repack),
          .threads = 256,
          .grid = [](std::int64_t rows, std::int64_t cols) {
            return Grid{ceil_div(ceil_div(rows, 128) * 128 * ceil_div(cols, 128), 256), 1};
          }};
}

}  // namespace levels
