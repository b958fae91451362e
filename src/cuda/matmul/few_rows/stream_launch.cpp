#include "cuda/matmul/few_rows/stream_launch.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cuda/device/kernels.hpp"
#include "cuda/device/launch.hpp"
#include "cuda/matmul/few_rows/stream_plan.hpp"

namespace microscale::cuda {
namespace {

// What flows, and how many rows of a at a time.
struct Choice {
  StreamKind kind;
  int rows_at_once;
};

bool is_f16(const MatmulCall& call) {
  return call.a_dense() && call.a_dense()->dtype == DType::f16;
}

std::optional<Choice> choose(const MatmulCall& call, std::int64_t each) {
  const Format format = call.b_shape().format;
  const BlockTensorView* a = call.a_blocks();
  if (!call.packed() || (format != Format::mxfp4 && format != Format::nvfp4) ||
      (a && a->shape.format != Format::nvfp4))
    return {};
  // Nine and more rows are in_registers' where it takes their formats, all pairs but this one.
  const bool many = each > 8;
  if (many && (!is_f16(call) || format != Format::mxfp4)) return {};
  const FormatInfo& facts = info(format);
  const auto bytes = static_cast<int>(fragment_tiles::tile_bytes(facts.code_bits, facts.block));
  const int tiles = many ? 2 : 1;
  return Choice{stream_packed(bytes, tiles), 8 * tiles};
}

std::string kernel_name(const MatmulCall& call, int rows_at_once) {
  return fmt::format("matmul_stream_{}{}_{}", info(call.b_shape().format).name,
                     is_f16(call) ? "" : "_bf16", rows_at_once);
}

// Matrices, each as often as it has `at_once` rows of a; with experts at most.
std::int64_t parts_of(const ProductRows& rows, std::int64_t at_once) {
  if (rows.expert_rows) return std::min(rows.m, rows.matrices) + rows.m / at_once;
  return rows.matrices * ceil_div(rows.m, at_once);
}

}  // namespace

std::optional<StreamPlan> stream_plan(Device& device, const MatmulCall& call,
                                      const ProductRows& rows, std::int64_t each) {
  if (architecture_of(device.info()) != "sm_90a") return {};
  const std::optional<Choice> choice = choose(call, each);
  if (!choice) return {};
  const StreamKind& kind = choice->kind;
  StreamPlan plan{};
  plan.rows_at_once = choice->rows_at_once;
  plan.units_rows = static_cast<int>(std::min<std::int64_t>(rows.m, choice->rows_at_once));
  const std::int64_t chunks = ceil_div(call.k(), kind.columns),
                     parts = parts_of(rows, choice->rows_at_once),
                     tiles = parts * fragment_tiles::row_tiles(call.n(), call.gated);
  if (rows.expert_rows && (parts > stream_most_parts || rows.matrices >= 1 << 16)) return {};
  if (tiles >= std::int64_t{1} << 31 || chunks >= 1 << 20 || rows.m >= std::int64_t{1} << 31)
    return {};

  // Of what fits, what takes the fewest cycles, as predicted.
  const Kernel kernel = load_kernel(device, kernel_name(call, plan.rows_at_once), call.operation);
  plan.chunks = static_cast<int>(chunks);
  const int deepest = stream_depth(tiles * chunks / kind.stage_chunks /
                                   device.info().multiprocessors / stream_warps);
  std::int64_t least = -1;
  for (int shift = 0; shift <= 3; ++shift) {
    const auto of_block = static_cast<int>(ceil_div(chunks, std::int64_t{1} << shift));
    for (int k_shift = 2; k_shift <= stream_warps_shift; ++k_shift) {
      if (k_shift > 2 && of_block < kind.stage_chunks << k_shift) break;
      for (int rounds_shift = kind.most_rounds_shift; rounds_shift >= 0; --rounds_shift) {
        StreamCut cut{shift, k_shift, rounds_shift, deepest + 1};
        StreamShared shared{};
        do {
          --cut.depth;
          shared = stream_shared(kind, cut, plan.units_rows, of_block, rows.expert_rows != nullptr);
        } while (cut.depth > 1 && shared.bytes > stream_shared_bytes - 1024);
        if (cut.depth == 1) continue;
        const int clusters = device.most_clusters(kernel, 1 << shift, stream_threads, shared.bytes);
        if (clusters == 0) continue;
        const std::int64_t cycles =
            stream_cycles(kind, cut, plan.units_rows, of_block, ceil_div(tiles, clusters));
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

void matmul_stream(Device& device, const MatmulCall& call, const StreamPlan& plan,
                   const PrepareRowsArgs& a, const MatmulRowsArgs& args, Stream stream) {
  MatmulStreamArgs all{};
  all.product = args;
  all.a = a;
  all.shared = plan.shared;
  all.cut = plan.cut;
  all.units_rows = plan.units_rows;
  all.chunks = plan.chunks;
  all.constant = call.constant_weights;
  all.row_tiles = static_cast<std::uint32_t>(fragment_tiles::row_tiles(args.n, call.gated));
  all.by_row_tiles = divisor(all.row_tiles);
  all.by_parts_of_each = divisor(1);
  if (args.rows.expert_rows == nullptr) {
    all.parts_of_each = static_cast<std::uint32_t>(ceil_div(args.rows.m, plan.units_rows));
    all.by_parts_of_each = divisor(all.parts_of_each);
    const std::uint32_t parts = static_cast<std::uint32_t>(args.rows.matrices) * all.parts_of_each,
                        tiles = parts * all.row_tiles,
                        clusters = static_cast<std::uint32_t>(plan.clusters);
    all.batch_each = tiles / clusters;
    all.batch_more = tiles % clusters;
  }
  launch(device, kernel_name(call, plan.rows_at_once), call.operation,
         {.grid_x = static_cast<unsigned>(plan.clusters << plan.cut.cluster_shift),
          .grid_y = 1,
          .grid_z = 1,
          .threads = stream_threads,
          .column_shift = 0},
         all, stream, plan.shared.bytes, 1 << plan.cut.cluster_shift);
}

}  // namespace microscale::cuda
