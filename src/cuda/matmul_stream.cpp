#include "cuda/matmul_stream.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cuda/kernels.hpp"
#include "cuda/launch.hpp"
#include "cuda/stream_geometry.hpp"

namespace microscale::cuda {
namespace {

// Clusters of so many blocks that a device holds at once: of four, a GPC may have blocks over.
int clusters_of(const DeviceInfo& device, int cluster) {
  const int whole = device.multiprocessors / cluster;
  return std::max(cluster == 4 ? whole - whole / 16 : whole, 1);
}

}  // namespace

std::optional<StreamPlan> stream_plan(const DeviceInfo& device, const MatmulCall& call,
                                      const ProductRows& rows, std::int64_t each) {
  const Format format = call.b_shape().format;
  if (!call.packed() || architecture_of(device) != "sm_90a" ||
      (format != Format::mxfp4 && format != Format::nvfp4))
    return {};
  if (const BlockTensorView* a = call.a_blocks(); a && a->shape.format != Format::nvfp4) return {};
  const FormatInfo& facts = info(format);
  const auto tile_bytes =
      static_cast<int>(fragment_tiles::tile_bytes(facts.code_bits, facts.block));
  StreamPlan plan{};
  plan.token_tiles = each <= 8 ? 1 : 2;
  const std::int64_t at_once = 8 * plan.token_tiles;
  plan.units_rows = static_cast<int>(std::min(rows.m, at_once));
  plan.most_parts = rows.offsets ? rows.matrices + rows.m / at_once
                                 : rows.matrices * ceil_div(rows.m, at_once);
  if (rows.offsets && plan.most_parts > stream_most_parts) return {};
  const std::int64_t row_tiles = fragment_tiles::row_tiles(call.n(), call.gated),
                     chunks = fragment_tiles::col_tiles(call.k()),
                     tiles = row_tiles * (rows.offsets ? std::min(rows.m, rows.matrices)
                                                       : plan.most_parts);
  if (tiles > (std::int64_t{1} << 31) || chunks > (std::int64_t{1} << 24)) return {};

  // Of what fits, the cluster size whose rounds lose least: the time of all tiles, in units of a
  // row tile and multiprocessor.
  double best = 0;
  for (const int cluster : {1, 2, 4}) {
    const auto of_block = static_cast<int>(ceil_div(chunks, cluster));
    int k_warps = stream_warps;
    while (k_warps > 4 && of_block < k_warps * stream_stage_tiles(tile_bytes)) k_warps /= 2;
    int depth = 8;
    while (depth >= 3 && stream_shared(tile_bytes, plan.token_tiles, k_warps, plan.units_rows,
                                       of_block, depth)
                                 .bytes > stream_shared_bytes - 1024)
      --depth;
    if (depth < 3) continue;
    const int clusters = clusters_of(device, cluster);
    const double time = static_cast<double>(ceil_div(tiles, clusters)) / cluster +
                        0.02 * cluster * static_cast<double>(tiles) / device.multiprocessors;
    if (best != 0 && time >= best) continue;
    best = time;
    plan.cluster = cluster;
    plan.k_warps = k_warps;
    plan.depth = depth;
    plan.clusters = static_cast<int>(std::min<std::int64_t>(clusters, tiles));
    plan.shared_bytes =
        stream_shared(tile_bytes, plan.token_tiles, k_warps, plan.units_rows, of_block, depth)
            .bytes;
  }
  if (best == 0) return {};
  return plan;
}

void matmul_stream(Device& device, const MatmulCall& call, const StreamPlan& plan,
                   const MatmulRowsArgs& args, Stream stream) {
  MatmulStreamArgs all{};
  all.product = args;
  all.k_warps = plan.k_warps;
  all.depth = plan.depth;
  all.units_rows = plan.units_rows;
  launch(device,
         fmt::format("matmul_stream_{}_{}", info(call.b_shape().format).name, 8 * plan.token_tiles),
         call.operation,
         {.grid_x = static_cast<unsigned>(plan.clusters * plan.cluster),
          .grid_y = 1,
          .grid_z = 1,
          .threads = stream_threads,
          .column_shift = 0},
         all, stream, plan.shared_bytes, plan.cluster);
}

}  // namespace microscale::cuda
