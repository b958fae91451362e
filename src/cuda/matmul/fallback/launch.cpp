#include "cuda/matmul/fallback/launch.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cuda/matmul/fragment_order.hpp"
#include "cuda/device/launch.hpp"
#include "cuda/matmul/few_rows/line_launch.hpp"
#include "cuda/matmul/few_rows/stream_launch.hpp"
#include "layouts/fragment_tiles.hpp"

namespace microscale::cuda {
namespace {

// What lies where in the workspace, each part at a multiple of 256 bytes.
struct Parts {
  std::int64_t units_stride, scales_at, factors_at, total;

  Parts(const MatmulCall& call, std::int64_t rows) {
    const auto padded = [](std::int64_t bytes) { return ceil_div(bytes, 256) * 256; };
    const BlockTensorView* a = call.a_blocks();
    const bool scaled = a && info(a->shape.format).e8m0_scale;
    const bool factors = !a && call.a_dense()->dtype == DType::bf16;
    units_stride = ceil_div(call.k(), unit_columns) * unit_columns * 2;
    scales_at = padded(rows * units_stride);
    factors_at = scales_at + padded(scaled ? rows * (call.k() / 32) * 4 : 0);
    total = factors_at + padded(factors ? rows * 4 : 0);
  }
};

std::int64_t rows_each(const ProductRows& rows) {
  return rows.expert_rows ? ceil_div(rows.m, std::max<std::int64_t>(rows.matrices, 1)) : rows.m;
}

// Rows of a that a kernel takes at a time: 1, 8 or 16. One at a time reads weights again for the
// next, so it is for one only, and k a multiple of 128; E5M2 has no such kernel (its weights may be
// infinite).
int rows_at_a_time(const MatmulCall& call, const ProductRows& rows) {
  const std::int64_t each = rows_each(rows);
  if (each == 1 && !call.packed() && call.k() % unit_columns == 0 &&
      call.b_shape().format != Format::mxfp8_e5m2)
    return 1;
  return each <= 8 ? 8 : 16;
}

FragmentOrder order_of(const FormatInfo& b, bool packed, bool scaled, bool one) {
  if (packed) return FragmentOrder::packed;
  if (b.code_bits == 8) return one ? FragmentOrder::fp8_lines : FragmentOrder::fp8_blocks;
  if (one) return FragmentOrder::fp4_lines;
  return b.e8m0_scale || scaled ? FragmentOrder::fp4_blocks : FragmentOrder::fp4_lines;
}

void fill_plain(MatmulRowsArgs& args, const MatmulCall& call, const FormatInfo& format) {
  const auto& b = std::get<BlockTensorView>(call.b);
  args.b = b.codes.data();
  args.b_scales = b.scales.data();
  args.b_matrix = b.shape.code_bytes();
  args.b_scale_matrix = b.shape.scale_bytes();
  args.tiled = b.shape.layout == Layout::tiled_128x4;
  if (call.gated) {
    args.up = call.up->codes.data();
    args.up_scales = call.up->scales.data();
    args.up_scale_matrix = call.up->shape.scale_bytes();
    args.up_tiled = call.up->shape.layout == Layout::tiled_128x4;
  }
  args.wide = b.shape.code_bytes_per_line() % 16 == 0 && (args.k / format.block) % 4 == 0;
}

}  // namespace

std::int64_t matmul_rows_workspace(const MatmulCall& call, std::int64_t rows) {
  return Parts(call, rows).total;
}

void matmul_rows(Device& device, const MatmulCall& call, const ProductRows& rows,
                 const ProductOutput& output, std::uint8_t* workspace, Stream stream) {
  if (const auto plan = line_plan(device, call, rows))
    return line_stream(device, call, *plan, output, stream);
  const std::int64_t all = rows.expert_rows ? rows.m : rows.m * rows.matrices;
  const Parts parts(call, all);
  const FormatInfo& format = info(call.b_shape().format);
  const BlockTensorView* a = call.a_blocks();
  const bool scaled = a && info(a->shape.format).e8m0_scale, packed = call.packed() != nullptr;
  const int at_a_time = rows_at_a_time(call, rows);

  PrepareRowsArgs prepare{};
  prepare.rows = rows;
  prepare.k = call.k();
  prepare.order = static_cast<std::int32_t>(order_of(format, packed, scaled, at_a_time == 1));
  prepare.units = workspace;
  prepare.units_stride = parts.units_stride;
  if (scaled) prepare.block_scales = reinterpret_cast<float*>(workspace + parts.scales_at);
  std::string kind;
  if (a) {
    kind = info(a->shape.format).name;
    prepare.a = a->codes.data();
    prepare.a_stride = a->shape.code_bytes_per_line();
    prepare.scales = a->scales.data();
    prepare.tiled = a->shape.layout == Layout::tiled_128x4;
  } else {
    const TensorView& dense = *call.a_dense();
    kind = to_string(dense.dtype);
    prepare.a = dense.data;
    prepare.a_stride = dense.row_stride * size_of(dense.dtype);
    if (dense.dtype == DType::bf16)
      prepare.row_factors = reinterpret_cast<float*>(workspace + parts.factors_at);
  }

  MatmulRowsArgs args{};
  args.units = prepare.units;
  args.units_stride = prepare.units_stride;
  args.block_scales = prepare.block_scales;
  args.row_factors = prepare.row_factors;
  args.n = call.n();
  args.k = call.k();
  args.rows = rows;
  args.output = output;
  if (packed) {
    args.b = call.packed()->bytes.data();
    args.b_matrix =
        fragment_tiles::matrix_bytes(args.n, args.k, call.gated, format.code_bits, format.block);
  } else {
    fill_plain(args, call, format);
  }
  if (const auto plan = stream_plan(device, call, rows, rows_each(rows))) {
    args.row_factors = nullptr;
    return matmul_stream(device, call, *plan, prepare, args, stream);
  }
  constexpr unsigned prepare_threads = 256;
  launch(device, "matmul_prepare_rows_" + kind, call.operation,
         {static_cast<unsigned>(all),
          static_cast<unsigned>(ceil_div(parts.units_stride, 8 * prepare_threads)), 1,
          prepare_threads, 0},
         prepare, stream);
  constexpr std::int64_t most_grid_y = 65535;
  constexpr unsigned threads = 256;
  const Launch grid{static_cast<unsigned>(fragment_tiles::row_tiles(args.n, call.gated)),
                    static_cast<unsigned>(std::min(rows.matrices, most_grid_y)), 1, threads, 0};
  launch(device,
         fmt::format("matmul_rows_{}_{}_{}_{}", format.name, packed ? "packed" : "plain",
                     scaled ? "scaled" : "unit", at_a_time),
         call.operation, grid, args, stream);
}

}  // namespace microscale::cuda
