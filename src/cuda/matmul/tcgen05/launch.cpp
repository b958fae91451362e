#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>

#include "cuda/device/kernels.hpp"
#include "cuda/device/operands.hpp"
#include "cuda/kernel_table.hpp"
#include "cuda/matmul/tcgen05/plan.hpp"
#include "formats/integers.hpp"
#include "layouts/grouped.hpp"
#include "microscale/error.hpp"

namespace microscale::cuda::tcgen05 {
namespace {

bool is_mxfp8(Format format) {
  return format == Format::mxfp8_e4m3 || format == Format::mxfp8_e5m2;
}

/// 128x4 tiles of scales that 128 rows have a stage.
int scale_tiles_of(Format format) {
  const FormatInfo& facts = info(format);
  return stage_row_bytes * 8 / facts.code_bits / facts.block / 4;
}

TensorMap boxes_of(Device& device, const ProductOperand& codes, std::int64_t rows) {
  TensorBoxes boxes;
  boxes.data = codes.data;
  boxes.rank = 2;
  boxes.size = {codes.stride, rows};
  boxes.stride = {1, codes.stride};
  boxes.box = {stage_row_bytes, block_rows};
  boxes.swizzle_128 = true;
  return device.tensor_map(boxes);
}

/// Whether every 16 columns of a row of d begin at a multiple of 32 bytes.
bool has_vectors_of_32_bytes(const ProductOutput& out) {
  const std::int64_t element = size_of(static_cast<DType>(out.d_type));
  return reinterpret_cast<std::uintptr_t>(out.d) % 32 == 0 && out.d_stride * element % 32 == 0 &&
         out.d_matrix * element % 32 == 0;
}

/// The scales of `rows` to `tiles`.
void write_tiles(Device& device, const char* operation, const ProductOperand& operand,
                 const ProductRows& rows, std::int64_t tiles_down, std::int64_t k,
                 std::uint8_t* tiles, Stream stream) {
  const std::int64_t blocks = k / info(*operand.format).block;
  const ScaleTilesArgs args{
      .scales = operand.scales,
      .tiles = tiles,
      .blocks = static_cast<std::int32_t>(blocks),
      .matrix_tiles_down = static_cast<std::int32_t>(grouped::tile_rows(rows.m, block_rows)),
      .words = blocks % 4 == 0,
      .rows = rows};
  const Launch shape{static_cast<unsigned>(tiles_down), static_cast<unsigned>(ceil_div(blocks, 32)),
                     1, scale_threads, 0};
  launch(device, kernels::matmul_scale_tiles(), operation, shape, args, stream);
}

/// Modelled: what a stage's products take, or its bytes out of the second-level cache.
std::int64_t stage_cycles(TileShape shape, int scale_tiles) {
  constexpr int cache_bytes = 64;  // a cycle and multiprocessor, as on Hopper
  const SharedLayout memory = shared_layout(shape, scale_tiles);
  return std::max(stage_steps * shape.columns / 2,
                  (memory.code_bytes + memory.scale_bytes) / cache_bytes);
}

/// 128x4 tiles down the scales of all rows of a.
std::int64_t row_tiles_of(const Product& product) {
  const ProductRows& rows = product.rows;
  return product.grouped ? grouped::most_tile_rows(rows.m, rows.matrices, block_rows)
                         : grouped::tile_rows(rows.m, block_rows) * rows.matrices;
}

}  // namespace

bool takes_formats(Format a, Format b) {
  if (a == Format::nvfp4 || a == Format::mxfp4) return b == a;
  return is_mxfp8(a) && is_mxfp8(b);
}

bool takes(const Product& product) {
  if (!product.a.format || product.b.packed || !takes_formats(*product.a.format, product.weights()))
    return false;
  constexpr std::int64_t most_rows = std::int64_t{1} << 30;  // coordinates have 32 bits
  return product.rows_each() >= least_rows &&
         product.k % (32 * 8 / info(*product.a.format).code_bits) == 0 &&
         product.k <= (std::int64_t{1} << 24) && product.all_rows() <= most_rows &&
         product.n <= most_rows / product.rows.matrices;
}

Entry<MatmulTcgen05Args> kernel_of(Format a, Format b, TileShape shape) {
  return kernels::matmul_tcgen05(info(a).name, info(b).name,
                                 fmt::format("{}x{}", shape.rows, shape.columns));
}

Plan plan_of(const DeviceInfo& device, const Product& product, TileShape shape) {
  const ProductRows& rows = product.rows;
  Plan plan;
  plan.shape = shape;
  plan.matrix_tiles_down = grouped::tile_rows(rows.m, shape.rows);
  plan.tiles_down = product.grouped ? grouped::most_tile_rows(rows.m, rows.matrices, shape.rows)
                                    : plan.matrix_tiles_down * rows.matrices;
  plan.column_tiles = ceil_div(product.n, product.gated() ? shape.columns / 2 : shape.columns);
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max() / 2;
  if (plan.tiles_down > most / plan.column_tiles)
    throw Error(ErrorCode::unsupported,
                fmt::format("{}: {} x {} x {} are more than {} tiles of {} x {}; make it several "
                            "products",
                            product.operation, rows.m * rows.matrices, product.n, product.k, most,
                            shape.rows, shape.columns));
  plan.clusters = static_cast<int>(std::min<std::int64_t>(
      plan.tiles_down * plan.column_tiles, std::max(device.multiprocessors / shape.blocks(), 1)));

  const std::int64_t row_tile =
      ceil_div(product.k / info(product.weights()).block, tiled_128x4::tile_blocks) *
      tiled_128x4::tile_bytes;
  const std::int64_t weights = rows.matrices * ceil_div(product.n, block_rows) * row_tile;
  if (product.a.layout == Layout::row_major)
    plan.a_scale_bytes = padded(row_tiles_of(product) * row_tile);
  if (product.b.layout == Layout::row_major) plan.b_scale_bytes = padded(weights);
  if (product.gated() && product.up.layout == Layout::row_major)
    plan.up_scale_bytes = padded(weights);
  plan.workspace_bytes = plan.a_scale_bytes + plan.b_scale_bytes + plan.up_scale_bytes;
  return plan;
}

Plan plan_of(const DeviceInfo& device, const Product& product) {
  // The shape by which all multiprocessors are through first.
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  Plan best;
  for (const TileShape shape : {paired, wide, narrow}) {
    if (!serves(shape, product) || (shape == paired && product.rows.m <= block_rows)) continue;
    const Plan plan = plan_of(device, product, shape);
    const std::int64_t time = ceil_div(plan.tiles_down * plan.column_tiles, plan.clusters) *
                              stage_cycles(shape, scale_tiles_of(*product.a.format));
    if (time >= least) continue;
    least = time;
    best = plan;
  }
  return best;
}

bool serves(TileShape shape, const Product& product) {
  if (shape == paired) return !product.grouped;  // both blocks have rows of one matrix
  return shape == wide || !product.gated();      // the gate's half begins with a scale tile
}

std::string describe(const Plan& plan) {
  return fmt::format("tcgen05 {}x{}, {} x {} tiles, {} {}{}", plan.shape.rows, plan.shape.columns,
                     plan.tiles_down, plan.column_tiles, plan.clusters,
                     plan.shape.blocks() > 1 ? "pairs of blocks" : "blocks",
                     plan.workspace_bytes > 0 ? ", scales to tiles first" : "");
}

void run(Device& device, const Plan& plan, const Product& product, std::uint8_t* workspace,
         Stream stream) {
  const ProductRows of_weights{product.n, product.rows.matrices, nullptr, 0};
  const std::int64_t weight_tiles = ceil_div(product.n, block_rows) * product.rows.matrices;
  const auto scales_of = [&](const ProductOperand& operand, const ProductRows& rows,
                             std::int64_t tiles_down, std::int64_t bytes) {
    if (bytes == 0) return operand.scales;
    std::uint8_t* const tiles = workspace;
    write_tiles(device, product.operation, operand, rows, tiles_down, product.k, tiles, stream);
    workspace += bytes;
    return static_cast<const std::uint8_t*>(tiles);
  };
  const std::int64_t weight_rows = product.n * product.rows.matrices;
  MatmulTcgen05Args args{};
  args.a = boxes_of(device, product.a, product.all_rows());
  args.b = boxes_of(device, product.b, weight_rows);
  args.a_scales = scales_of(product.a, product.rows, row_tiles_of(product), plan.a_scale_bytes);
  args.b_scales = scales_of(product.b, of_weights, weight_tiles, plan.b_scale_bytes);
  args.b_scale_matrix = tiled_128x4::bytes(product.n, product.k / info(product.weights()).block);
  if (product.gated()) {
    args.up = boxes_of(device, product.up, weight_rows);
    args.up_scales = scales_of(product.up, of_weights, weight_tiles, plan.up_scale_bytes);
  }
  args.n = product.n;
  args.k = product.k;
  args.vectors = has_vectors_of_32_bytes(product.output);
  args.tiles_down = static_cast<std::int32_t>(plan.tiles_down);
  args.column_tiles = static_cast<std::int32_t>(plan.column_tiles);
  args.matrix_tiles_down = static_cast<std::int32_t>(plan.matrix_tiles_down);
  args.matrix_row_tiles = static_cast<std::int32_t>(grouped::tile_rows(product.rows.m, block_rows));
  args.rows = product.rows;
  args.output = product.output;
  const Launch shape{static_cast<unsigned>(plan.clusters * plan.shape.blocks()), 1, 1, threads, 0};
  launch(device, kernel_of(*product.a.format, product.weights(), plan.shape), product.operation,
         shape, args, stream, shared_layout(plan.shape, scale_tiles_of(*product.a.format)).bytes);
}

}  // namespace microscale::cuda::tcgen05
