#include "checkpoint/kept_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "checkpoint/dense_view.hpp"
#include "checkpoint/json.hpp"
#include "checkpoint/quantized_folder.hpp"
#include "checkpoint/value_hash.hpp"
#include "core/threads.hpp"
#include "microscale/error.hpp"

namespace microscale {
namespace {

// One matrix of the output, and the tiles of those before it.
struct WrittenMatrix {
  const StoredWeight* weight = nullptr;
  MatrixSlice slice;
  BlockCoding coding;
  std::int64_t first_tile = 0;
};

WrittenMatrix find(const DenseView& view, const ModelPlan& plan, const QuantizedMatrix& matrix) {
  WrittenMatrix found;
  found.slice = matrix.slice;
  const DenseTensor* tensor = view.find(matrix.slice.module + ".weight");
  if (tensor) {
    found.slice.first = 0;
    found.slice.row_step = matrix.slice.cols;
    found.slice.col_step = 1;
  } else {
    tensor = view.find(plan.tensors[matrix.tensor].entry->name);
  }
  if (tensor && tensor->weight) {
    found.weight = tensor->weight;
    const auto coding = tensor->weight->coding_of(found.slice);
    if (coding && coding->format == matrix.kept->written.format) {
      found.coding = *coding;
      return found;
    }
  }
  throw Error(ErrorCode::io,
              fmt::format("convert: the output has no weight {} in {} as it was written; check the "
                          "disk, and convert again into another folder",
                          in_quotes(matrix.slice.module), info(matrix.kept->written.format).name));
}

}  // namespace

std::uint64_t hash_of_output(const ModelPlan& plan, const std::filesystem::path& output,
                             const std::vector<TileBuffers>& buffers,
                             const std::function<void(std::string_view module)>& read) {
  // A folder that is not finished does not say that a lone file of any name is its model.
  const bool lone = plan.index_text.empty() && plan.model.shards.size() == 1 &&
                    std::filesystem::is_directory(output);
  QuantizedFolder folder =
      take(open_quantized_folder(lone ? output / plan.model.shards.front().name : output));
  const DenseView view = dense_view_of(folder);
  std::vector<WrittenMatrix> matrices;
  std::int64_t tiles = 0;
  for (const ShardPlan& shard : plan.shards) {
    for (const QuantizedMatrix& matrix : shard.matrices) {
      matrices.push_back(find(view, plan, matrix));
      matrices.back().first_tile = tiles;
      tiles += TileGrid(matrix.slice.rows, matrix.slice.cols).count();
    }
  }
  std::atomic<std::uint64_t> sum{0};
  parallel_for_worker(tiles, static_cast<int>(buffers.size()), [&](std::int64_t i, int worker) {
    const auto after = std::upper_bound(
        matrices.begin(), matrices.end(), i,
        [](std::int64_t tile, const WrittenMatrix& each) { return tile < each.first_tile; });
    const WrittenMatrix& matrix = *(after - 1);
    const Tile tile = TileGrid(matrix.slice.rows, matrix.slice.cols).tile(i - matrix.first_tile);
    const FormatInfo& format = info(matrix.coding.format);
    const TileBuffers& work = buffers[static_cast<std::size_t>(worker)];
    const auto codes =
        work.codes.first(static_cast<std::size_t>(code_bytes(format, tile.elements())));
    const auto scales = work.scales.first(static_cast<std::size_t>(tile.elements() / format.block));
    take(matrix.weight->read_block_tile(matrix.slice, tile, codes, scales));
    sum += hash_of_tile(matrix.slice, tile, matrix.coding, codes, scales);
    read(matrix.slice.module);
  });
  return sum;
}

}  // namespace microscale
