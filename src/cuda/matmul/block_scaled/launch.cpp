#include "cuda/matmul/block_scaled/launch.hpp"

#include <fmt/format.h>

#include <limits>

#include "cuda/device/launch.hpp"
#include "cuda/matmul/block_scaled/plan.hpp"
#include "layouts/grouped.hpp"
#include "microscale/error.hpp"

namespace microscale::cuda {
namespace {

bool is_mxfp8(Format format) {
  return format == Format::mxfp8_e4m3 || format == Format::mxfp8_e5m2;
}

BlockShape shape_of(const BlockScaledOperand& operand, std::int64_t rows, std::int64_t k) {
  return {rows, k, operand.format, BlockAxis::cols, operand.layout};
}

/// What rows of so many bytes, the first at a multiple of 16, are aligned to; at most 4.
std::int32_t alignment_of(std::int64_t row_bytes) {
  return row_bytes % 4 == 0 ? 4 : row_bytes % 2 == 0 ? 2 : 1;
}

/// Whether four neighbours of a row of d lie at a multiple of their size.
bool has_vectors(const ProductOutput& out) {
  const std::int64_t bytes = 4 * size_of(static_cast<DType>(out.d_type));
  return reinterpret_cast<std::uintptr_t>(out.d) % static_cast<std::uintptr_t>(bytes) == 0 &&
         out.d_stride % 4 == 0 && out.d_matrix % 4 == 0;
}

/// A function of the shape alone: the order of sums is, too. Groups are never split, so that an
/// expert's rows are the same bytes whatever the others have.
bool splits(const ProductRows& rows, std::int64_t tiles, std::int64_t all_stages) {
  return rows.expert_rows == nullptr && tiles <= block_scaled::split_most_tiles &&
         all_stages >= block_scaled::split_least_stages;
}

}  // namespace

bool block_scaled_pair_offered(Format a, Format b) {
  if (a == Format::nvfp4 || a == Format::mxfp4) return b == a;
  return is_mxfp8(a) && (is_mxfp8(b) || (a == Format::mxfp8_e4m3 && b == Format::mxfp4));
}

std::string block_scaled_kernel(Format a, Format b, bool split) {
  return fmt::format("matmul_block_scaled_{}{}_{}", split ? "split_" : "", info(a).name,
                     info(b).name);
}

void block_scaled_product(Device& device, const BlockScaledProduct& product, const char* operation,
                          Stream stream) {
  using namespace block_scaled;
  const ProductRows& rows = product.rows;
  if (rows.m == 0 || rows.matrices == 0 || product.n == 0) return;
  const BlockShape a = shape_of(product.a, rows.m, product.k);
  const BlockShape b = shape_of(product.b, product.n, product.k);

  const std::int64_t of_matrix = grouped::tile_rows(rows.m, tile_rows);
  const std::int64_t row_tiles = rows.expert_rows == nullptr
                                     ? of_matrix * rows.matrices
                                     : grouped::most_tile_rows(rows.m, rows.matrices, tile_rows);
  const std::int64_t column_tiles =
      ceil_div(product.n, product.output.gated ? tile_columns / 2 : tile_columns);
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  constexpr std::int64_t most_k = std::int64_t{1} << 28;
  if (row_tiles > most / column_tiles || product.k > most_k)
    throw Error(ErrorCode::unsupported,
                fmt::format("{}: {} x {} x {} are more than {} tiles of {} x {}, or k is more than "
                            "{}; make it several products",
                            operation, rows.m * rows.matrices, product.n, product.k, most,
                            tile_rows, tile_columns, most_k));

  MatmulBlockScaledArgs args{};
  args.a = product.a.codes;
  args.a_scales = product.a.scales;
  args.b = product.b.codes;
  args.b_scales = product.b.scales;
  args.up = product.up.codes;
  args.up_scales = product.up.scales;
  args.b_matrix = b.code_bytes();
  args.b_scale_matrix = b.scale_bytes();
  args.up_scale_matrix = shape_of(product.up, product.n, product.k).scale_bytes();
  args.a_tiled = a.layout == Layout::tiled_128x4;
  args.b_tiled = b.layout == Layout::tiled_128x4;
  args.up_tiled = product.output.gated && product.up.layout == Layout::tiled_128x4;
  args.a_align = alignment_of(a.blocks_per_line());
  args.b_align = alignment_of(b.blocks_per_line());
  args.wide = a.code_bytes_per_line() % 16 == 0 && b.code_bytes_per_line() % 16 == 0;
  args.vectors = has_vectors(product.output);
  args.n = product.n;
  args.k = product.k;
  args.row_tiles = static_cast<std::int32_t>(row_tiles);
  args.column_tiles = static_cast<std::int32_t>(column_tiles);
  args.matrix_row_tiles = static_cast<std::int32_t>(of_matrix);
  args.rows = rows;
  args.output = product.output;
  const std::int64_t tiles = row_tiles * column_tiles;
  const bool split = splits(rows, tiles, ceil_div(a.code_bytes_per_line(), stage_row_bytes));
  const Launch shape{static_cast<unsigned>(tiles * (split ? split_parts : 1)), 1, 1, threads, 0};
  launch(device, block_scaled_kernel(product.a.format, product.b.format, split), operation, shape,
         args, stream);
}

}  // namespace microscale::cuda
