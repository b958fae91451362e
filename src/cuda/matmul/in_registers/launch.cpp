#include "cuda/matmul/in_registers/plan.hpp"

#include "cuda/device/kernels.hpp"
#include "cuda/kernel_table.hpp"
#include "cuda/matmul/product.hpp"

namespace microscale::cuda::in_registers {
namespace {

UnpackedArgs unpacked_args(const Product& product, const ProductOperand& b) {
  return {.codes = b.data,
          .scales = b.scales,
          .codes_matrix = product.n * product.k / 2,
          .scales_matrix = scale_bytes(b, product.n, product.k),
          .tiled = b.layout == Layout::tiled_128x4};
}

// Args::dense.
TensorBoxes row_boxes(const Product& product, TileShape shape) {
  return {.data = product.a.data,
          .rank = 2,
          .element_bytes = 2,
          .size = {product.k, product.all_rows()},
          .stride = {2, product.a.stride},
          .box = {64, shape.tokens},
          .swizzle_128 = true};
}

// Args::weights.
TensorBoxes weight_boxes(const Product& product, TileShape shape) {
  const std::int64_t tile = packed_tile_bytes(product.weights()),
                     chunks = token_tiles::chunks(product.k),
                     row_tiles = fragment_tiles::row_tiles(product.n, product.gated());
  return {.data = product.b.data,
          .rank = 4,
          .element_bytes = 8,
          .size = {tile / 8, chunks, row_tiles, product.rows.matrices},
          .stride = {8, tile, chunks * tile, row_tiles * chunks * tile},
          .box = {static_cast<int>(tile / 8), shape.stage_chunks(), shape.rows / 16, 1}};
}

}  // namespace

Entry<Args> kernel_of(const Plan& plan, const Product& product) {
  const char* const kind = !product.b.packed ? "plain" : plan.f16 ? "f16" : "bf16";
  const TileShape shape = plan.cut.shape;
  return kernels::matmul_in_registers(info(product.weights()).name, kind,
                                      EntryTile{shape.rows, shape.tokens});
}

void run(Device& device, const Plan& plan, const Product& product, std::uint8_t* workspace,
         Stream stream) {
  const Tiling& cut = plan.cut;
  const bool unpacked = !product.b.packed;
  std::uint8_t* const sums = workspace + plan.token_bytes;
  Args args{};
  if (plan.reads_rows)
    args.dense = device.tensor_map(row_boxes(product, cut.shape));
  else
    args.tiles = workspace;
  if (unpacked) {
    args.unpacked[0] = unpacked_args(product, product.b);
    if (product.gated()) args.unpacked[1] = unpacked_args(product, product.up);
  } else {
    args.weights = device.tensor_map(weight_boxes(product, cut.shape));
  }
  args.n = product.n;
  args.k = product.k;
  args.tiles_of_d = static_cast<std::uint32_t>(cut.most_tiles);
  args.cut = cut.cut;
  args.cut_by_kernel = cut.cut_by_kernel;
  args.sums = reinterpret_cast<float*>(sums);
  args.flags = reinterpret_cast<std::uint64_t*>(sums + cut.sums_bytes());
  args.ticket = next_ticket();
  args.vectors = has_vectors(product.output);
  args.constant = product.constant_weights;
  args.partial = !plan.reads_rows && (product.grouped || product.rows.m % cut.shape.tokens != 0);
  args.rows = product.rows;
  args.output = product.output;
  if (!plan.reads_rows) {
    PrepareTilesArgs tiles = prepare_tiles_args(product, plan.f16, workspace);
    tiles.by_blocks = unpacked;
    prepare_tiles(device, product.operation, product.a.format, tiles, stream);
  }
  launch(device, kernel_of(plan, product), product.operation,
         {.grid_x = static_cast<unsigned>(cut.blocks),
          .grid_y = 1,
          .grid_z = 1,
          .threads = static_cast<unsigned>(cut.shape.threads()),
          .column_shift = 0},
         args, stream, shared_layout(cut.shape, packed_tile_bytes(product.weights())).bytes,
         cut.cut.paired ? 2 : 1);
}

}  // namespace microscale::cuda::in_registers
