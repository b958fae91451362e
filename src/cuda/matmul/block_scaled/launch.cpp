#include "cuda/matmul/block_scaled/plan.hpp"

#include <fmt/format.h>

#include <limits>

#include "cuda/device/kernels.hpp"
#include "cuda/kernel_table.hpp"
#include "formats/integers.hpp"
#include "layouts/grouped.hpp"
#include "microscale/error.hpp"

namespace microscale::cuda::block_scaled {
namespace {

bool is_mxfp8(Format format) {
  return format == Format::mxfp8_e4m3 || format == Format::mxfp8_e5m2;
}

BlockShape shape_of(const ProductOperand& operand, std::int64_t rows, std::int64_t k) {
  return {rows, k, *operand.format, BlockAxis::cols, operand.layout};
}

/// What rows of so many bytes, the first at a multiple of 16, are aligned to; at most 4.
std::int32_t alignment_of(std::int64_t row_bytes) {
  return row_bytes % 4 == 0 ? 4 : row_bytes % 2 == 0 ? 2 : 1;
}

/// Whether four neighbours of a row of d lie at a multiple of their size.
bool has_vectors_of_four(const ProductOutput& out) {
  const std::int64_t bytes = 4 * size_of(static_cast<DType>(out.d_type));
  return reinterpret_cast<std::uintptr_t>(out.d) % static_cast<std::uintptr_t>(bytes) == 0 &&
         out.d_stride % 4 == 0 && out.d_matrix % 4 == 0;
}

/// A function of the shape alone: the order of sums is, too. Groups are never split, so that an
/// expert's rows are the same bytes whatever the others have.
bool splits(const Product& product, std::int64_t tiles) {
  return !product.grouped && tiles <= split_most_tiles &&
         ceil_div(product.a.stride, stage_row_bytes) >= split_least_stages;
}

}  // namespace

bool takes_formats(Format a, Format b) {
  if (a == Format::nvfp4 || a == Format::mxfp4) return b == a;
  return is_mxfp8(a) && (is_mxfp8(b) || (a == Format::mxfp8_e4m3 && b == Format::mxfp4));
}

Entry<MatmulBlockScaledArgs> kernel_of(Format a, Format b, bool split) {
  return split ? kernels::matmul_block_scaled("split", info(a).name, info(b).name)
               : kernels::matmul_block_scaled(info(a).name, info(b).name);
}

Plan plan_of(const Product& product) {
  const ProductRows& rows = product.rows;
  Plan plan;
  plan.matrix_tiles_down = grouped::tile_rows(rows.m, tile_rows);
  plan.tiles_down = product.grouped ? grouped::most_tile_rows(rows.m, rows.matrices, tile_rows)
                                    : plan.matrix_tiles_down * rows.matrices;
  plan.column_tiles = ceil_div(product.n, product.gated() ? tile_columns / 2 : tile_columns);
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  constexpr std::int64_t most_k = std::int64_t{1} << 28;
  if (plan.tiles_down > most / plan.column_tiles || product.k > most_k)
    throw Error(ErrorCode::unsupported,
                fmt::format("{}: {} x {} x {} are more than {} tiles of {} x {}, or k is more than "
                            "{}; make it several products",
                            product.operation, rows.m * rows.matrices, product.n, product.k, most,
                            tile_rows, tile_columns, most_k));
  plan.split = splits(product, plan.tiles_down * plan.column_tiles);
  return plan;
}

std::string describe(const Plan& plan) {
  std::string text = fmt::format("block_scaled {}x{}, {} x {} tiles", tile_rows, tile_columns,
                                 plan.tiles_down, plan.column_tiles);
  if (plan.split) text += fmt::format(", k in {} parts", split_parts);
  return text;
}

void run(Device& device, const Plan& plan, const Product& product, Stream stream) {
  const BlockShape a = shape_of(product.a, product.rows.m, product.k);
  const BlockShape b = shape_of(product.b, product.n, product.k);
  MatmulBlockScaledArgs args{};
  args.a = product.a.data;
  args.a_scales = product.a.scales;
  args.b = product.b.data;
  args.b_scales = product.b.scales;
  args.b_matrix = b.code_bytes();
  args.b_scale_matrix = b.scale_bytes();
  if (product.gated()) {
    args.up = product.up.data;
    args.up_scales = product.up.scales;
    args.up_scale_matrix = shape_of(product.up, product.n, product.k).scale_bytes();
    args.up_tiled = product.up.layout == Layout::tiled_128x4;
  }
  args.a_tiled = a.layout == Layout::tiled_128x4;
  args.b_tiled = b.layout == Layout::tiled_128x4;
  args.a_align = alignment_of(a.blocks_per_line());
  args.b_align = alignment_of(b.blocks_per_line());
  args.wide = a.code_bytes_per_line() % 16 == 0 && b.code_bytes_per_line() % 16 == 0;
  args.vectors = has_vectors_of_four(product.output);
  args.n = product.n;
  args.k = product.k;
  args.tiles_down = static_cast<std::int32_t>(plan.tiles_down);
  args.column_tiles = static_cast<std::int32_t>(plan.column_tiles);
  args.matrix_tiles_down = static_cast<std::int32_t>(plan.matrix_tiles_down);
  args.rows = product.rows;
  args.output = product.output;
  const std::int64_t tiles = plan.tiles_down * plan.column_tiles;
  const Launch shape{static_cast<unsigned>(tiles * (plan.split ? split_parts : 1)), 1, 1, threads,
                     0};
  launch(device, kernel_of(*product.a.format, product.weights(), plan.split), product.operation,
         shape, args, stream);
}

}  // namespace microscale::cuda::block_scaled
