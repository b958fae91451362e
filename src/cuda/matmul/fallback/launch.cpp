#include "cuda/matmul/fallback/plan.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cuda/device/kernels.hpp"
#include "cuda/device/operands.hpp"
#include "cuda/kernel_table.hpp"
#include "formats/integers.hpp"
#include "layouts/fragment_tiles.hpp"

namespace microscale::cuda::fallback {
namespace {

// Whether a has block scales that go with sums.
bool has_scaled_sums(const Product& product) {
  return product.a.format && info(*product.a.format).e8m0_scale;
}

// Whether rows of a are scaled by a power of two each.
bool has_factors(const Product& product) {
  return !product.a.format && product.a.type == DType::bf16;
}

// One row at a time reads weights again for the next, so it is for one only, and k a multiple of
// 128; E5M2 has no such kernel (its weights may be infinite).
int rows_at_once(const Product& product) {
  const std::int64_t each = product.rows_each();
  if (each == 1 && !product.b.packed && product.k % unit_columns == 0 &&
      product.weights() != Format::mxfp8_e5m2)
    return 1;
  return each <= 8 ? 8 : 16;
}

FragmentOrder order_of(const Product& product, bool one) {
  const FormatInfo& b = info(product.weights());
  if (product.b.packed) return FragmentOrder::packed;
  if (b.code_bits == 8) return one ? FragmentOrder::fp8_lines : FragmentOrder::fp8_blocks;
  if (one) return FragmentOrder::fp4_lines;
  return b.e8m0_scale || has_scaled_sums(product) ? FragmentOrder::fp4_blocks
                                                  : FragmentOrder::fp4_lines;
}

PrepareRowsArgs prepare_args(const Product& product) {
  PrepareRowsArgs args{};
  args.a = product.a.data;
  args.a_stride = product.a.stride;
  args.scales = product.a.scales;
  args.rows = product.rows;
  args.k = product.k;
  args.tiled = product.a.format && product.a.layout == Layout::tiled_128x4;
  return args;
}

MatmulRowsArgs product_args(const Product& product) {
  const FormatInfo& format = info(product.weights());
  MatmulRowsArgs args{};
  args.b = product.b.data;
  args.n = product.n;
  args.k = product.k;
  args.rows = product.rows;
  args.output = product.output;
  if (product.b.packed) {
    args.b_matrix = fragment_tiles::matrix_bytes(product.n, product.k, product.gated(),
                                                 format.code_bits, format.block);
    return args;
  }
  args.b_scales = product.b.scales;
  args.b_matrix = product.n * product.b.stride;
  args.b_scale_matrix = scale_bytes(product.b, product.n, product.k);
  args.tiled = product.b.layout == Layout::tiled_128x4;
  if (product.gated()) {
    args.up = product.up.data;
    args.up_scales = product.up.scales;
    args.up_scale_matrix = scale_bytes(product.up, product.n, product.k);
    args.up_tiled = product.up.layout == Layout::tiled_128x4;
  }
  args.wide = product.b.stride % 16 == 0 && (product.k / format.block) % 4 == 0;
  return args;
}

}  // namespace

Plan plan_of(const Product& product) {
  const std::int64_t rows = product.all_rows();
  Plan plan;
  plan.rows_at_once = rows_at_once(product);
  plan.order = order_of(product, plan.rows_at_once == 1);
  plan.units_stride = ceil_div(product.k, unit_columns) * unit_columns * 2;
  plan.scales_at = padded(rows * plan.units_stride);
  plan.factors_at =
      plan.scales_at + padded(has_scaled_sums(product) ? rows * (product.k / 32) * 4 : 0);
  plan.workspace_bytes = plan.factors_at + padded(has_factors(product) ? rows * 4 : 0);
  return plan;
}

std::string describe(const Plan& plan) {
  return fmt::format("fallback, {} at a time", plan.rows_at_once);
}

void run(Device& device, const Plan& plan, const Product& product, std::uint8_t* workspace,
         Stream stream) {
  PrepareRowsArgs prepare = prepare_args(product);
  prepare.order = static_cast<std::int32_t>(plan.order);
  prepare.units = workspace;
  prepare.units_stride = plan.units_stride;
  if (has_scaled_sums(product))
    prepare.block_scales = reinterpret_cast<float*>(workspace + plan.scales_at);
  if (has_factors(product))
    prepare.row_factors = reinterpret_cast<float*>(workspace + plan.factors_at);
  const std::string_view kind =
      product.a.format ? info(*product.a.format).name : to_string(product.a.type);
  constexpr unsigned threads = 256;
  launch(device, kernels::matmul_prepare_rows(kind), product.operation,
         {static_cast<unsigned>(product.all_rows()),
          static_cast<unsigned>(ceil_div(plan.units_stride, 8 * threads)), 1, threads, 0},
         prepare, stream);

  MatmulRowsArgs args = product_args(product);
  args.units = prepare.units;
  args.units_stride = prepare.units_stride;
  args.block_scales = prepare.block_scales;
  args.row_factors = prepare.row_factors;
  constexpr std::int64_t most_grid_y = 65535;
  launch(
      device,
      kernels::matmul_fallback(info(product.weights()).name, product.b.packed ? "packed" : "plain",
                               has_scaled_sums(product) ? "scaled" : "unit", plan.rows_at_once),
      product.operation,
      {static_cast<unsigned>(fragment_tiles::row_tiles(product.n, product.gated())),
       static_cast<unsigned>(std::min(product.rows.matrices, most_grid_y)), 1, threads, 0},
      args, stream);
}

}  // namespace microscale::cuda::fallback
