#include "cuda/matmul/few_rows/stream_launch.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cuda/device/launch.hpp"
#include "cuda/matmul/fallback/launch.hpp"

namespace microscale::cuda {
namespace {

// What flows, and how many rows of a at a time.
struct Choice {
  StreamKind kind;
  int rows_at_once;
};

bool is_f16(const Product& product) { return !product.a.format && product.a.type == DType::f16; }

std::optional<Choice> choose(const Product& product) {
  const Format format = product.weights();
  if (!product.b.packed || (format != Format::mxfp4 && format != Format::nvfp4) ||
      (product.a.format && *product.a.format != Format::nvfp4))
    return {};
  // Nine and more rows are in_registers' where it takes their formats, all pairs but this one.
  const bool many = product.rows_each() > 8;
  if (many && (!is_f16(product) || format != Format::mxfp4)) return {};
  const int tiles = many ? 2 : 1;
  return Choice{stream_packed(packed_tile_bytes(format), tiles), 8 * tiles};
}

std::string kernel_of(const Product& product, int rows_at_once) {
  return fmt::format("matmul_stream_{}{}_{}", info(product.weights()).name,
                     is_f16(product) ? "" : "_bf16", rows_at_once);
}

// Matrices, each as often as it has `at_once` rows of a; with experts at most.
std::int64_t parts_of(const Product& product, std::int64_t at_once) {
  const ProductRows& rows = product.rows;
  if (product.grouped) return std::min(rows.m, rows.matrices) + rows.m / at_once;
  return rows.matrices * ceil_div(rows.m, at_once);
}

}  // namespace

std::optional<StreamPlan> stream_plan(const DeviceFacts& facts, const Product& product) {
  if (facts.architecture() != "sm_90a") return {};
  const std::optional<Choice> choice = choose(product);
  if (!choice) return {};
  const ProductRows& rows = product.rows;
  const StreamKind& kind = choice->kind;
  StreamPlan plan{};
  plan.rows_at_once = choice->rows_at_once;
  plan.units_rows = static_cast<int>(std::min<std::int64_t>(rows.m, choice->rows_at_once));
  const std::int64_t chunks = ceil_div(product.k, kind.columns),
                     parts = parts_of(product, choice->rows_at_once),
                     tiles = parts * fragment_tiles::row_tiles(product.n, product.gated());
  if (product.grouped && (parts > stream_most_parts || rows.matrices >= 1 << 16)) return {};
  if (tiles >= std::int64_t{1} << 31 || chunks >= 1 << 20 || rows.m >= std::int64_t{1} << 31)
    return {};

  // Of what fits, what takes the fewest cycles, as predicted.
  const DeviceFacts::Occupancy occupancy =
      facts.occupancy(kernel_of(product, plan.rows_at_once), product.operation);
  plan.chunks = static_cast<int>(chunks);
  const int deepest = stream_depth(tiles * chunks / kind.stage_chunks /
                                   facts.info().multiprocessors / stream_warps);
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
          shared = stream_shared(kind, cut, plan.units_rows, of_block, product.grouped);
        } while (cut.depth > 1 && shared.bytes > most_shared_bytes - 1024);
        if (cut.depth == 1) continue;
        const int clusters = occupancy.most_clusters(1 << shift, stream_threads, shared.bytes);
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

std::string describe(const StreamPlan& plan) {
  return fmt::format("few_rows {}, {} clusters of {}, {} warps along k, ring of {}",
                     plan.rows_at_once, plan.clusters, 1 << plan.cut.cluster_shift,
                     1 << plan.cut.k_shift, plan.cut.depth);
}

void matmul_stream(Device& device, const StreamPlan& plan, const Product& product, Stream stream) {
  MatmulStreamArgs all{};
  all.product = fallback::product_args(product);
  all.a = fallback::prepare_args(product);
  all.shared = plan.shared;
  all.cut = plan.cut;
  all.units_rows = plan.units_rows;
  all.chunks = plan.chunks;
  all.constant = product.constant_weights;
  all.row_tiles = static_cast<std::uint32_t>(fragment_tiles::row_tiles(product.n, product.gated()));
  all.by_row_tiles = divisor(all.row_tiles);
  all.by_parts_of_each = divisor(1);
  if (!product.grouped) {
    all.parts_of_each = static_cast<std::uint32_t>(ceil_div(product.rows.m, plan.units_rows));
    all.by_parts_of_each = divisor(all.parts_of_each);
    const std::uint32_t parts =
                            static_cast<std::uint32_t>(product.rows.matrices) * all.parts_of_each,
                        tiles = parts * all.row_tiles,
                        clusters = static_cast<std::uint32_t>(plan.clusters);
    all.batch_each = tiles / clusters;
    all.batch_more = tiles % clusters;
  }
  launch(device, kernel_of(product, plan.rows_at_once), product.operation,
         {.grid_x = static_cast<unsigned>(plan.clusters << plan.cut.cluster_shift),
          .grid_y = 1,
          .grid_z = 1,
          .threads = stream_threads,
          .column_shift = 0},
         all, stream, plan.shared.bytes, 1 << plan.cut.cluster_shift);
}

}  // namespace microscale::cuda
