#include "cuda/matmul/product.hpp"

#include <algorithm>
#include <string_view>

#include "cuda/device/kernels.hpp"
#include "cuda/kernel_table.hpp"
#include "formats/integers.hpp"
#include "layouts/token_tiles.hpp"

namespace microscale::cuda {
namespace {

// Blocks that prepare rows begin while the grid in front ends, and would all go to the few
// multiprocessors that are through with it first, six to one: they take three times as long then,
// and the product's blocks there begin late. So where they are few, each has shared memory that it
// does not use, and no more than two find room on a multiprocessor.
constexpr std::int64_t few_a_multiprocessor = 2;
constexpr int spreading_bytes = 100 << 10;

}  // namespace

PrepareTilesArgs prepare_tiles_args(const Product& product, bool f16, void* tiles) {
  PrepareTilesArgs args{};
  args.a = product.a.data;
  args.a_stride = product.a.stride;
  args.scales = product.a.scales;
  args.rows = product.rows;
  args.k = product.k;
  args.tiled = product.a.format && product.a.layout == Layout::tiled_128x4;
  args.f16 = f16;
  args.tiles = tiles;
  args.group_step = 1;
  return args;
}

void prepare_tiles(Device& device, const char* operation, const std::optional<Format>& format,
                   const PrepareTilesArgs& args, Stream stream) {
  const std::int64_t groups =
      token_tiles::all_groups(args.rows.m, args.rows.matrices, args.rows.expert_rows != nullptr);
  const std::string_view kind = format ? info(*format).name : "dense";
  const std::int64_t of_k = ceil_div(args.k, 256 * prepare_pieces),
                     most =
                         args.only_if != nullptr ? ceil_div(blocks_that_rarely_work, of_k) : 32768;
  const Launch shape{.grid_x = static_cast<unsigned>(of_k),
                     .grid_y = static_cast<unsigned>(std::min(groups, most)),
                     .grid_z = 1,
                     .threads = threads_per_block,
                     .column_shift = 0};
  const bool few = args.by_blocks != 0 && args.only_if == nullptr &&
                   std::int64_t{shape.grid_x} * shape.grid_y <=
                       few_a_multiprocessor * device.info().multiprocessors;
  launch(device, few ? kernels::matmul_prepare_blocks(kind) : kernels::matmul_prepare_tiles(kind),
         operation, shape, args, stream, few ? spreading_bytes : 0);
}

}  // namespace microscale::cuda
