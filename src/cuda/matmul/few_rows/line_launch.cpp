#include "cuda/matmul/few_rows/line_launch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "cuda/device/kernels.hpp"
#include "cuda/device/launch.hpp"
#include "cuda/matmul/few_rows/line_args.hpp"
#include "layouts/tiled_128x4.hpp"

namespace microscale::cuda {
namespace {

constexpr int block_bytes = 232448;  // of shared memory that a block of sm_90 may have
constexpr int least_depth = 3;       // stages; with fewer, too little is under way
constexpr int most_depth = 5;        // with more, the first of them comes later (as measured)
constexpr int early_depth = 2;       // of constant weights, asked for before the grid in front ends

bool aligned(const void* address) { return reinterpret_cast<std::uintptr_t>(address) % 16 == 0; }

bool is_fp4(Format format) { return format == Format::mxfp4 || format == Format::nvfp4; }

bool takes_a(const MatmulCall& call) {
  if (const BlockTensorView* a = call.a_blocks())
    return is_fp4(a->shape.format) && aligned(a->codes.data()) &&
           reinterpret_cast<std::uintptr_t>(a->scales.data()) % 2 == 0;
  const TensorView& dense = *call.a_dense();
  return dense.dtype != DType::f32 && aligned(dense.data) &&
         (call.matrices == 1 || dense.row_stride % 8 == 0);
}

bool takes_b(const MatmulCall& call) {
  if (call.packed() || call.gated) return false;
  const auto& b = std::get<BlockTensorView>(call.b);
  return is_fp4(b.shape.format) &&
         (b.shape.layout == Layout::row_major || call.n() % tiled_128x4::tile_lines == 0) &&
         call.k() % (16 * info(b.shape.format).block) == 0 && aligned(b.codes.data()) &&
         aligned(b.scales.data());
}

// LineStreamArgs::codes.
TensorBoxes code_boxes(const BlockTensorView& b, std::int64_t rows) {
  const std::int64_t row = b.shape.cols / 2, pieces = row / line_piece_bytes;
  const bool tiled = b.shape.layout == Layout::tiled_128x4;
  TensorBoxes boxes{.data = b.codes.data(), .rank = 4, .swizzle_128 = true};
  boxes.size = {line_piece_bytes, tiled ? rows / 32 : rows, tiled ? 32 : 1, pieces};
  boxes.stride = {1, tiled ? 32 * row : row, row, line_piece_bytes};
  boxes.box = {line_piece_bytes, tiled ? 4 : line_rows, tiled ? 4 : 1, line_pieces};
  return boxes;
}

// LineStreamArgs::scales.
TensorBoxes scale_boxes(const BlockTensorView& b, std::int64_t rows) {
  const std::int64_t blocks = b.shape.blocks_per_line(), groups = blocks / 4;
  const auto block = static_cast<int>(info(b.shape.format).block);
  TensorBoxes boxes{.data = b.scales.data(), .rank = 4};
  if (b.shape.layout == Layout::tiled_128x4) {
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

std::string kernel_name(const MatmulCall& call) {
  return fmt::format("matmul_line_{}_{}", info(call.b_shape().format).name,
                     call.a_blocks() ? "codes" : "dense");
}

}  // namespace

std::optional<LinePlan> line_plan(Device& device, const MatmulCall& call, const ProductRows& rows) {
  if (architecture_of(device.info()) != "sm_90a" || rows.expert_rows || rows.m != 1 ||
      !takes_b(call) || !takes_a(call))
    return {};
  LinePlan plan{};
  const std::int64_t row_tiles = ceil_div(call.n(), std::int64_t{line_rows}),
                     stages = ceil_div(call.k(), std::int64_t{line_columns});
  if (stages > 64 || row_tiles * rows.matrices * line_rows * stages >= std::int64_t{1} << 31)
    return {};
  plan.row_tiles = static_cast<std::uint32_t>(row_tiles);
  plan.tiles = static_cast<std::uint32_t>(row_tiles * rows.matrices);
  plan.stages = static_cast<int>(stages);
  plan.buffers = rows.matrices > 1 ? 2 : 1;
  const auto block = static_cast<int>(info(call.b_shape().format).block);
  const int fixed = line_shared(block, plan.stages, 0, plan.buffers).bytes;
  plan.depth = std::min((block_bytes - fixed) / (line_stage_bytes(block) + 16), most_depth);
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
  const Kernel kernel = load_kernel(device, kernel_name(call), call.operation);
  const std::int64_t halved =
      choose(2, device.most_clusters(kernel, 2, line_threads, plan.shared.bytes));
  const LinePlan pairs = plan;
  const std::int64_t whole = choose(1, device.info().multiprocessors);
  return halved < whole - whole / 32 ? pairs : plan;
}

void line_stream(Device& device, const MatmulCall& call, const LinePlan& plan,
                 const ProductOutput& output, Stream stream) {
  const auto& b = std::get<BlockTensorView>(call.b);
  LineStreamArgs args{};
  args.codes = device.tensor_map(code_boxes(b, call.matrices * call.n()));
  args.scales = device.tensor_map(scale_boxes(b, call.matrices * call.n()));
  args.b_tiled = b.shape.layout == Layout::tiled_128x4;
  const BlockTensorView* a = call.a_blocks();
  if (a) {
    const std::int64_t blocks = a->shape.blocks_per_line();
    args.a = a->codes.data();
    args.a_scales = a->scales.data();
    args.a_matrix = a->shape.code_bytes_per_line();
    args.a_tiled = a->shape.layout == Layout::tiled_128x4;
    args.a_scale_matrix =
        args.a_tiled ? tiled_128x4::bytes(tiled_128x4::tile_lines, blocks) : blocks;
    args.a_kind = static_cast<std::int32_t>(a->shape.format == Format::nvfp4 ? LineInput::nvfp4
                                                                             : LineInput::mxfp4);
  } else {
    const TensorView& dense = *call.a_dense();
    args.a = dense.data;
    args.a_matrix = dense.row_stride * size_of(dense.dtype);
    args.a_kind =
        static_cast<std::int32_t>(dense.dtype == DType::bf16 ? LineInput::bf16 : LineInput::f16);
  }
  args.n = call.n();
  args.k = call.k();
  args.row_tiles = plan.row_tiles;
  args.stages = plan.stages;
  args.cluster = static_cast<std::uint32_t>(plan.cluster);
  args.each = plan.tiles / (static_cast<std::uint32_t>(plan.blocks) / args.cluster);
  args.more = plan.tiles % (static_cast<std::uint32_t>(plan.blocks) / args.cluster);
  args.by_row_tiles = divisor(plan.row_tiles);
  args.by_stages = divisor(plan.stages);
  args.depth = plan.depth;
  args.early = call.constant_weights ? early_depth : 0;
  args.buffers = plan.buffers;
  args.shared = plan.shared;
  args.output = output;
  launch(device, kernel_name(call), call.operation,
         {.grid_x = static_cast<unsigned>(plan.blocks),
          .grid_y = 1,
          .grid_z = 1,
          .threads = line_threads,
          .column_shift = 0},
         args, stream, plan.shared.bytes, plan.cluster);
}

}  // namespace microscale::cuda
