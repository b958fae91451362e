#include "checkpoint/kept_check.hpp"

#include <fmt/format.h>

#include <atomic>
#include <optional>

#include "checkpoint/dense_view.hpp"
#include "checkpoint/json.hpp"
#include "checkpoint/quantized_folder.hpp"
#include "checkpoint/value_hash.hpp"
#include "core/threads.hpp"
#include "microscale/error.hpp"

namespace microscale {
namespace {

// One matrix of the output.
struct WrittenMatrix {
  const StoredWeight* weight = nullptr;
  MatrixSlice slice;
  BlockCoding coding;
};

struct TileToRead {
  std::size_t matrix = 0;
  std::int64_t tile = 0;
  std::optional<std::uint64_t> hash;  // of what was written
};

// One tile in sixteen of the model, not the same ones of each matrix, and all of a small model's.
bool is_sample(std::int64_t tile) {
  constexpr std::int64_t all = 64;
  constexpr std::uint64_t golden = 0x9E3779B97F4A7C15;
  return tile < all || static_cast<std::uint64_t>(tile) * golden >> 60 == 0;
}

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

std::uint64_t hash_of(const WrittenMatrix& matrix, std::int64_t tile, const TileBuffers& work) {
  const Tile part = TileGrid(matrix.slice.rows, matrix.slice.cols).tile(tile);
  const FormatInfo& format = info(matrix.coding.format);
  const auto codes =
      work.codes.first(static_cast<std::size_t>(code_bytes(format, part.elements())));
  const auto scales = work.scales.first(static_cast<std::size_t>(part.elements() / format.block));
  take(matrix.weight->read_block_tile(matrix.slice, part, codes, scales));
  return hash_of_tile(matrix.slice, part, matrix.coding, codes, scales);
}

[[noreturn]] void throw_other_values(std::string_view module) {
  throw Error(ErrorCode::io,
              fmt::format("convert: {} does not have the values that were written; check the disk "
                          "and memory of this machine, and convert again into another folder",
                          in_quotes(module)));
}

}  // namespace

std::uint64_t hash_of_output(const ModelPlan& plan, const OutputToCheck& output,
                             const std::vector<TileBuffers>& buffers,
                             const std::function<void(std::string_view module)>& read) {
  // A folder that is not finished does not say that a lone file of any name is its model.
  const bool lone = plan.index_text.empty() && plan.model.shards.size() == 1 &&
                    std::filesystem::is_directory(output.path);
  QuantizedFolder folder = take(
      open_quantized_folder(lone ? output.path / plan.model.shards.front().name : output.path));
  const DenseView view = dense_view_of(folder);
  std::vector<WrittenMatrix> matrices;
  std::vector<TileToRead> tiles;
  std::uint64_t known = 0;
  std::int64_t count = 0;
  for (std::size_t shard = 0; shard < plan.shards.size(); ++shard) {
    const auto& planned = plan.shards[shard].matrices;
    for (std::size_t i = 0; i < planned.size(); ++i) {
      const WrittenMatrix matrix = find(view, plan, planned[i]);
      const std::int64_t its_tiles = TileGrid(matrix.slice.rows, matrix.slice.cols).count();
      for (std::int64_t tile = 0; tile < its_tiles; ++tile) {
        const auto hash = output.written.of(shard, i, tile, matrix.coding);
        if (!hash || output.read_back || is_sample(count + tile)) {
          tiles.push_back({matrices.size(), tile, hash});
        } else {
          known += *hash;
        }
      }
      count += its_tiles;
      matrices.push_back(matrix);
    }
  }
  std::atomic<std::uint64_t> sum{known};
  const auto to_read = static_cast<std::int64_t>(tiles.size());
  parallel_for_worker(to_read, static_cast<int>(buffers.size()), [&](std::int64_t i, int worker) {
    const TileToRead& wanted = tiles[static_cast<std::size_t>(i)];
    const WrittenMatrix& matrix = matrices[wanted.matrix];
    const std::uint64_t hash =
        hash_of(matrix, wanted.tile, buffers[static_cast<std::size_t>(worker)]);
    if (wanted.hash && hash != *wanted.hash) throw_other_values(matrix.slice.module);
    sum += hash;
    read(matrix.slice.module);
  });
  return sum;
}

}  // namespace microscale
