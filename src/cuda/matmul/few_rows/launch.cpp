#include "cuda/matmul/few_rows/plan.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cuda/device/kernels.hpp"
#include "cuda/kernel_table.hpp"
#include "formats/integers.hpp"
#include "layouts/tiled_128x4.hpp"

namespace microscale::cuda::few_rows {
namespace {

bool is_fp4(Format format) { return format == Format::mxfp4 || format == Format::nvfp4; }

bool is_f16(const ProductOperand& a) { return !a.format && a.type == DType::f16; }

// What both kernels are told; `shares`: clusters among which `tiles` are shared out.
void fill(Args& args, const Product& product, std::int64_t row_tiles, std::int64_t tiles,
          std::int64_t shares) {
  const ProductOperand& a = product.a;
  args.a = {.data = a.data,
            .scales = a.scales,
            .stride = a.stride,
            .scale_matrix = a.format ? scale_bytes(a, product.rows.m, product.k) : 0,
            .kind = static_cast<std::int32_t>(a.format == Format::nvfp4   ? RowKind::nvfp4
                                              : a.format == Format::mxfp4 ? RowKind::mxfp4
                                              : is_f16(a)                 ? RowKind::f16
                                                                          : RowKind::bf16),
            .tiled = a.format && a.layout == Layout::tiled_128x4};
  args.n = product.n;
  args.k = product.k;
  args.row_tiles = static_cast<std::uint32_t>(row_tiles);
  args.each = static_cast<std::uint32_t>(tiles / shares);
  args.more = static_cast<std::uint32_t>(tiles % shares);
  args.by_row_tiles = divisor(row_tiles);
  args.output = product.output;
}

template <class Args>
void launch_blocks(Device& device, const Entry<Args>& kernel, const Product& product, int blocks,
                   unsigned threads, const Args& args, int cluster, Stream stream) {
  launch(device, kernel, product.operation,
         {.grid_x = static_cast<unsigned>(blocks),
          .grid_y = 1,
          .grid_z = 1,
          .threads = threads,
          .column_shift = 0},
         args, stream, args.shared.bytes, cluster);
}

// --- packed ---

// Rows of a that the kernel takes at a time; 0 where there is none.
int packed_rows_at_once(const Product& product) {
  const ProductOperand& a = product.a;
  if (!product.b.packed || !is_fp4(product.weights()) || (a.format && *a.format != Format::nvfp4))
    return 0;
  // Nine and more rows are in_registers' where it takes their formats, all pairs but this one.
  if (product.rows_each() <= 8) return 8;
  return is_f16(a) && product.weights() == Format::mxfp4 ? 16 : 0;
}

Entry<PackedArgs> packed_kernel(const Product& product, int rows_at_once) {
  return kernels::matmul_few_rows_packed(info(product.weights()).name, "packed",
                                         is_f16(product.a) ? "f16" : "bf16", rows_at_once);
}

// Matrices, each as often as it has `at_once` rows of a; with experts at most.
std::int64_t parts_of(const Product& product, std::int64_t at_once) {
  const ProductRows& rows = product.rows;
  if (product.grouped) return std::min(rows.m, rows.matrices) + rows.m / at_once;
  return rows.matrices * ceil_div(rows.m, at_once);
}

std::optional<Plan> packed_plan(const DeviceFacts& facts, const Product& product) {
  const int at_once = packed_rows_at_once(product);
  if (at_once == 0) return {};
  const ProductRows& rows = product.rows;
  const PackedShape shape = packed_shape(packed_tile_bytes(product.weights()), at_once / 8);
  PackedPlan plan{};
  plan.rows_at_once = at_once;
  plan.units_rows = static_cast<int>(std::min<std::int64_t>(rows.m, at_once));
  const std::int64_t chunks = ceil_div(product.k, shape.columns),
                     parts = parts_of(product, at_once),
                     tiles = parts * fragment_tiles::row_tiles(product.n, product.gated());
  if (product.grouped && (parts > most_parts || rows.matrices >= 1 << 16)) return {};
  if (tiles >= std::int64_t{1} << 31 || chunks >= 1 << 20 || rows.m >= std::int64_t{1} << 31)
    return {};

  // Of what fits, what takes the fewest cycles, as predicted.
  const DeviceFacts::Occupancy occupancy =
      facts.occupancy(packed_kernel(product, at_once), product.operation);
  plan.chunks = static_cast<int>(chunks);
  const int deepest = packed_depth(tiles * chunks / shape.stage_chunks /
                                   facts.info().multiprocessors / packed_warps);
  std::int64_t least = -1;
  for (int shift = 0; shift <= 3; ++shift) {
    const auto of_block = static_cast<int>(ceil_div(chunks, std::int64_t{1} << shift));
    for (int k_shift = 2; k_shift <= packed_warps_shift; ++k_shift) {
      if (k_shift > 2 && of_block < shape.stage_chunks << k_shift) break;
      for (int rounds_shift = shape.most_rounds_shift; rounds_shift >= 0; --rounds_shift) {
        PackedCut cut{shift, k_shift, rounds_shift, deepest + 1};
        PackedShared shared{};
        do {
          --cut.depth;
          shared = packed_shared(shape, cut, plan.units_rows, of_block, product.grouped);
        } while (cut.depth > 1 && shared.bytes > block_shared_bytes - 1024);
        if (cut.depth == 1) continue;
        const int clusters = occupancy.most_clusters(1 << shift, packed_threads, shared.bytes);
        if (clusters == 0) continue;
        const std::int64_t cycles =
            packed_cycles(shape, cut, plan.units_rows, of_block, ceil_div(tiles, clusters));
        if (least >= 0 && cycles >= least) continue;
        least = cycles;
        plan.cut = cut;
        plan.clusters = static_cast<int>(std::min<std::int64_t>(clusters, tiles));
        plan.shared = shared;
      }
    }
  }
  if (least < 0) return {};
  return plan;
}

std::string describe_packed(const PackedPlan& plan) {
  return fmt::format("few_rows {}, {} clusters of {}, {} warps along k, ring of {}",
                     plan.rows_at_once, plan.clusters, 1 << plan.cut.cluster_shift,
                     1 << plan.cut.k_shift, plan.cut.depth);
}

void run_packed(Device& device, const PackedPlan& plan, const Product& product, Stream stream) {
  const FormatInfo& format = info(product.weights());
  const ProductRows& rows = product.rows;
  const std::int64_t row_tiles = fragment_tiles::row_tiles(product.n, product.gated()),
                     parts = product.grouped ? 0 : ceil_div(rows.m, plan.units_rows);
  PackedArgs args{};
  fill(args, product, row_tiles, rows.matrices * parts * row_tiles, plan.clusters);
  args.early = product.constant_weights && !product.grouped ? plan.cut.depth / 2 : 0;
  args.rows = rows;
  args.b = product.b.data;
  args.b_matrix = fragment_tiles::matrix_bytes(product.n, product.k, product.gated(),
                                               format.code_bits, format.block);
  args.shared = plan.shared;
  args.cut = plan.cut;
  args.units_rows = plan.units_rows;
  args.chunks = plan.chunks;
  args.parts_of_each = static_cast<std::uint32_t>(parts);
  args.by_parts_of_each = divisor(product.grouped ? 1 : parts);
  const int cluster = 1 << plan.cut.cluster_shift;
  launch_blocks(device, packed_kernel(product, plan.rows_at_once), product, plan.clusters * cluster,
                packed_threads, args, cluster, stream);
}

// --- unpacked ---

constexpr int least_depth = 3;  // stages; with fewer, too little is under way
constexpr int most_depth = 5;   // with more, the first of them comes later (as measured)
constexpr int early_depth = 2;  // of constant weights, asked for before the grid in front ends

bool aligned(const void* address) { return reinterpret_cast<std::uintptr_t>(address) % 16 == 0; }

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

// UnpackedArgs::codes.
TensorBoxes code_boxes(const ProductOperand& b, std::int64_t rows) {
  const std::int64_t row = b.stride, pieces = row / piece_bytes;
  const bool tiled = b.layout == Layout::tiled_128x4;
  TensorBoxes boxes{.data = b.data, .rank = 4, .swizzle_128 = true};
  boxes.size = {piece_bytes, tiled ? rows / 32 : rows, tiled ? 32 : 1, pieces};
  boxes.stride = {1, tiled ? 32 * row : row, row, piece_bytes};
  boxes.box = {piece_bytes, tiled ? 4 : tile_rows, tiled ? 4 : 1, stage_pieces};
  return boxes;
}

// UnpackedArgs::scales.
TensorBoxes scale_boxes(const ProductOperand& b, std::int64_t rows, std::int64_t k) {
  const auto block = static_cast<int>(info(*b.format).block);
  const std::int64_t blocks = k / block, groups = blocks / 4;
  TensorBoxes boxes{.data = b.scales, .rank = 4};
  if (b.layout == Layout::tiled_128x4) {
    constexpr std::int64_t tile = tiled_128x4::tile_bytes;
    boxes.size = {tile, groups, rows / tiled_128x4::tile_lines, 1};
    boxes.stride = {1, tile, groups * tile, tile};
    boxes.box = {4 * tile_rows, stage_columns / (4 * block), 1, 1};
  } else {
    boxes.size = {blocks, rows, 1, 1};
    boxes.stride = {1, blocks, blocks, blocks};
    boxes.box = {stage_scale_row(block), tile_rows, 1, 1};
    boxes.swizzle_128 = stage_scale_row(block) == 128;
  }
  return boxes;
}

Entry<UnpackedArgs> unpacked_kernel(const Product& product) {
  return kernels::matmul_few_rows_unpacked(info(product.weights()).name, "unpacked",
                                           product.a.format ? "fp4" : "f16", 1);
}

std::optional<Plan> unpacked_plan(const DeviceFacts& facts, const Product& product) {
  const ProductRows& rows = product.rows;
  if (product.grouped || rows.m != 1 || !takes_b(product) || !takes_a(product)) return {};
  UnpackedPlan plan{};
  const std::int64_t row_tiles = ceil_div(product.n, std::int64_t{tile_rows}),
                     stages = ceil_div(product.k, std::int64_t{stage_columns});
  if (stages > 64 || row_tiles * rows.matrices * tile_rows * stages >= std::int64_t{1} << 31)
    return {};
  plan.row_tiles = static_cast<std::uint32_t>(row_tiles);
  plan.tiles = static_cast<std::uint32_t>(row_tiles * rows.matrices);
  plan.stages = static_cast<int>(stages);
  plan.buffers = rows.matrices > 1 ? 2 : 1;
  const auto block = static_cast<int>(info(product.weights()).block);
  const int fixed = unpacked_shared(block, plan.stages, 0, plan.buffers).bytes;
  plan.depth =
      std::min((block_shared_bytes - fixed) / (unpacked_stage_bytes(block) + 16), most_depth);
  if (plan.depth < least_depth) return {};
  plan.shared = unpacked_shared(block, plan.stages, plan.depth, plan.buffers);
  const auto choose = [&](int cluster, std::int64_t clusters) {
    clusters = std::min<std::int64_t>(clusters, plan.tiles);
    plan.cluster = cluster;
    plan.blocks = static_cast<int>(clusters * cluster);
    if (clusters == 0) return INT64_MAX;
    return ceil_div(ceil_div(std::int64_t{plan.tiles}, clusters) * stages, std::int64_t{cluster});
  };
  // Two blocks that halve row tiles along k wait for each other: a round in 32 must be saved.
  const DeviceFacts::Occupancy occupancy =
      facts.occupancy(unpacked_kernel(product), product.operation);
  const std::int64_t halved =
      choose(2, occupancy.most_clusters(2, unpacked_threads, plan.shared.bytes));
  const UnpackedPlan pairs = plan;
  const std::int64_t whole = choose(1, facts.info().multiprocessors);
  return halved < whole - whole / 32 ? pairs : plan;
}

std::string describe_unpacked(const UnpackedPlan& plan) {
  return fmt::format("few_rows 1, {} blocks{}, ring of {}", plan.blocks,
                     plan.cluster > 1 ? " in pairs" : "", plan.depth);
}

void run_unpacked(Device& device, const UnpackedPlan& plan, const Product& product, Stream stream) {
  const ProductOperand& b = product.b;
  const std::int64_t weight_rows = product.rows.matrices * product.n;
  UnpackedArgs args{};
  fill(args, product, plan.row_tiles, plan.tiles, plan.blocks / plan.cluster);
  args.early = product.constant_weights ? early_depth : 0;
  args.codes = device.tensor_map(code_boxes(b, weight_rows));
  args.scales = device.tensor_map(scale_boxes(b, weight_rows, product.k));
  args.b_tiled = b.layout == Layout::tiled_128x4;
  args.stages = plan.stages;
  args.cluster = static_cast<std::uint32_t>(plan.cluster);
  args.by_stages = divisor(plan.stages);
  args.depth = plan.depth;
  args.buffers = plan.buffers;
  args.shared = plan.shared;
  launch_blocks(device, unpacked_kernel(product), product, plan.blocks, unpacked_threads, args,
                plan.cluster, stream);
}

}  // namespace

std::optional<Plan> choose(const DeviceFacts& facts, const Product& product) {
  if (facts.architecture() != "sm_90a") return {};
  return product.b.packed ? packed_plan(facts, product) : unpacked_plan(facts, product);
}

std::string describe(const Plan& plan) {
  const auto* packed = std::get_if<PackedPlan>(&plan);
  return packed ? describe_packed(*packed) : describe_unpacked(std::get<UnpackedPlan>(plan));
}

void run(Device& device, const Plan& plan, const Product& product, Stream stream) {
  if (const auto* packed = std::get_if<PackedPlan>(&plan))
    run_packed(device, *packed, product, stream);
  else
    run_unpacked(device, std::get<UnpackedPlan>(plan), product, stream);
}

}  // namespace microscale::cuda::few_rows
