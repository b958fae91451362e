#include "checkpoint/tile_hashes.hpp"

namespace microscale {

TileHashes::TileHashes(const ModelPlan& plan) {
  for (const ShardPlan& shard : plan.shards) {
    auto& matrices = matrices_.emplace_back();
    for (const QuantizedMatrix& matrix : shard.matrices) {
      const std::int64_t tiles =
          matrix.kept ? TileGrid(matrix.slice.rows, matrix.slice.cols).count() : 0;
      matrices.push_back({{}, std::vector<std::uint64_t>(static_cast<std::size_t>(tiles))});
    }
  }
}

void TileHashes::set(const Unit& unit, const BlockCoding& coding, std::uint64_t hash) {
  Matrix& matrix = matrices_[unit.shard][unit.item];
  if (unit.piece == 0) matrix.coding = coding;
  matrix.hashes[static_cast<std::size_t>(unit.piece)] = hash;
}

std::optional<std::uint64_t> TileHashes::of(std::size_t shard, std::size_t matrix,
                                            std::int64_t tile, const BlockCoding& coding) const {
  const Matrix& found = matrices_[shard][matrix];
  const std::uint64_t hash = found.hashes[static_cast<std::size_t>(tile)];
  if (hash == 0 || found.hashes.front() == 0 || found.coding != coding) return std::nullopt;
  return hash;
}

}  // namespace microscale
