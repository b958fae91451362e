#include "cuda/matmul/few_rows/line_launch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "cuda/device/launch.hpp"
#include "cuda/matmul/few_rows/line_args.hpp"
#include "layouts/tiled_128x4.hpp"

namespace microscale::cuda {
namespace {

constexpr int least_depth = 3;  // stages; with fewer, too little is under way
constexpr int most_depth = 5;   // with more, the first of them comes later (as measured)
constexpr int early_depth = 2;  // of constant weights, asked for before the grid in front ends

bool aligned(const void* address) { return reinterpret_cast<std::uintptr_t>(address) % 16 == 0; }

bool is_fp4(Format format) { return format == Format::mxfp4 || format == Format::nvfp4; }

bool takes_a(const Product& product) {
  const ProductOperand& a = product.a;
  if (a.format)
    return is_fp4(*a.format) && aligned(a.data) &&
           reinterpret_cast<std::uintptr_t>(a.scales) % 2 == 0;
  return a.type != DType::f32 && aligned(a.data) &&
         (product.rows.matrices == 1 || a.stride % 16 == 0);
}

bool takes_b(const Product& product) {
  const ProductOperand& b = product.b;
  return !b.packed && !product.gated() && is_fp4(*b.format) &&
         (b.layout == Layout::row_major || product.n % tiled_128x4::tile_lines == 0) &&
         product.k % (16 * info(*b.format).block) == 0 && aligned(b.data) && aligned(b.scales);
}

// LineStreamArgs::codes.
TensorBoxes code_boxes(const ProductOperand& b, std::int64_t rows) {
  const std::int64_t row = b.stride, pieces = row / line_piece_bytes;
  const bool tiled = b.layout == Layout::tiled_128x4;
  TensorBoxes boxes{.data = b.data, .rank = 4, .swizzle_128 = true};
  boxes.size = {line_piece_bytes, tiled ? rows / 32 : rows, tiled ? 32 : 1, pieces};
  boxes.stride = {1, tiled ? 32 * row : row, row, line_piece_bytes};
  boxes.box = {line_piece_bytes, tiled ? 4 : line_rows, tiled ? 4 : 1, line_pieces};
  return boxes;
}

// LineStreamArgs::scales.
TensorBoxes scale_boxes(const ProductOperand& b, std::int64_t rows, std::int64_t k) {
  const auto block = static_cast<int>(info(*b.format).block);
  const std::int64_t blocks = k / block, groups = blocks / 4;
  TensorBoxes boxes{.data = b.scales, .rank = 4};
  if (b.layout == Layout::tiled_128x4) {
    constexpr std::int64_t tile = tiled_128x4::tile_bytes;
    boxes.size = {tile, groups, rows / tiled_128x4::tile_lines, 1};
    boxes.stride = {1, tile, groups * tile, tile};
    boxes.box = {4 * line_rows, line_columns / (4 * block), 1, 1};
  } else {
    boxes.size = {blocks, rows, 1, 1};
    boxes.stride = {1, blocks, blocks, blocks};
    boxes.box = {line_scale_row(block), line_rows, 1, 1};
    boxes.swizzle_128 = line_scale_row(block) == 128;
  }
  return boxes;
}

std::string kernel_of(const Product& product) {
  return fmt::format("matmul_line_{}_{}", info(product.weights()).name,
                     product.a.format ? "codes" : "dense");
}

}  // namespace

std::optional<LinePlan> line_plan(const DeviceFacts& facts, const Product& product) {
  const ProductRows& rows = product.rows;
  if (facts.architecture() != "sm_90a" || product.grouped || rows.m != 1 || !takes_b(product) ||
      !takes_a(product))
    return {};
  LinePlan plan{};
  const std::int64_t row_tiles = ceil_div(product.n, std::int64_t{line_rows}),
                     stages = ceil_div(product.k, std::int64_t{line_columns});
  if (stages > 64 || row_tiles * rows.matrices * line_rows * stages >= std::int64_t{1} << 31)
    return {};
  plan.row_tiles = static_cast<std::uint32_t>(row_tiles);
  plan.tiles = static_cast<std::uint32_t>(row_tiles * rows.matrices);
  plan.stages = static_cast<int>(stages);
  plan.buffers = rows.matrices > 1 ? 2 : 1;
  const auto block = static_cast<int>(info(product.weights()).block);
  const int fixed = line_shared(block, plan.stages, 0, plan.buffers).bytes;
  plan.depth = std::min((most_shared_bytes - fixed) / (line_stage_bytes(block) + 16), most_depth);
  if (plan.depth < least_depth) return {};
  plan.shared = line_shared(block, plan.stages, plan.depth, plan.buffers);
  const auto choose = [&](int cluster, std::int64_t clusters) {
    clusters = std::min<std::int64_t>(clusters, plan.tiles);
    plan.cluster = cluster;
    plan.blocks = static_cast<int>(clusters * cluster);
    if (clusters == 0) return INT64_MAX;
    return ceil_div(ceil_div(std::int64_t{plan.tiles}, clusters) * stages, std::int64_t{cluster});
  };
  // Two blocks that halve row tiles along k wait for each other: a round in 32 must be saved.
  const DeviceFacts::Occupancy occupancy = facts.occupancy(kernel_of(product), product.operation);
  const std::int64_t halved =
      choose(2, occupancy.most_clusters(2, line_threads, plan.shared.bytes));
  const LinePlan pairs = plan;
  const std::int64_t whole = choose(1, facts.info().multiprocessors);
  return halved < whole - whole / 32 ? pairs : plan;
}

std::string describe(const LinePlan& plan) {
  return fmt::format("few_rows 1, {} blocks{}, ring of {}", plan.blocks,
                     plan.cluster > 1 ? " in pairs" : "", plan.depth);
}

void line_stream(Device& device, const LinePlan& plan, const Product& product, Stream stream) {
  const ProductOperand &a = product.a, &b = product.b;
  const std::int64_t weight_rows = product.rows.matrices * product.n;
  LineStreamArgs args{};
  args.codes = device.tensor_map(code_boxes(b, weight_rows));
  args.scales = device.tensor_map(scale_boxes(b, weight_rows, product.k));
  args.b_tiled = b.layout == Layout::tiled_128x4;
  args.a = a.data;
  args.a_scales = a.scales;
  args.a_matrix = a.stride;
  if (a.format) {
    args.a_tiled = a.layout == Layout::tiled_128x4;
    args.a_scale_matrix = scale_bytes(a, 1, product.k);
    args.a_kind =
        static_cast<std::int32_t>(a.format == Format::nvfp4 ? LineInput::nvfp4 : LineInput::mxfp4);
  } else {
    args.a_kind =
        static_cast<std::int32_t>(a.type == DType::bf16 ? LineInput::bf16 : LineInput::f16);
  }
  args.n = product.n;
  args.k = product.k;
  args.row_tiles = plan.row_tiles;
  args.stages = plan.stages;
  args.cluster = static_cast<std::uint32_t>(plan.cluster);
  args.each = plan.tiles / (static_cast<std::uint32_t>(plan.blocks) / args.cluster);
  args.more = plan.tiles % (static_cast<std::uint32_t>(plan.blocks) / args.cluster);
  args.by_row_tiles = divisor(plan.row_tiles);
  args.by_stages = divisor(plan.stages);
  args.depth = plan.depth;
  args.early = product.constant_weights ? early_depth : 0;
  args.buffers = plan.buffers;
  args.shared = plan.shared;
  args.output = product.output;
  launch(device, kernel_of(product), product.operation,
         {.grid_x = static_cast<unsigned>(plan.blocks),
          .grid_y = 1,
          .grid_z = 1,
          .threads = line_threads,
          .column_shift = 0},
         args, stream, plan.shared.bytes, plan.cluster);
}

}  // namespace microscale::cuda
