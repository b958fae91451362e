// What the tiles of kept weights stand for, as they were written: with that, a conversion need not
// read all of its output again to know the hash of its values.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "checkpoint/containers/stored_weight.hpp"
#include "checkpoint/model_plan.hpp"
#include "checkpoint/schedule.hpp"

namespace microscale {

/// set() may be called from many threads at once, once for each unit; of() when they are done.
/// Memory: 8 bytes a tile.
class TileHashes {
 public:
  explicit TileHashes(const ModelPlan& plan);

  /// `unit` is a tile of a matrix whose codes stay; `coding` is how its bytes are to be read.
  void set(const Unit& unit, const BlockCoding& coding, std::uint64_t hash);

  /// Of a tile that was written in this run and is to be read by `coding`; else nothing.
  std::optional<std::uint64_t> of(std::size_t shard, std::size_t matrix, std::int64_t tile,
                                  const BlockCoding& coding) const;

 private:
  struct Matrix {
    BlockCoding coding;                 // of the first tile; all of them have the same
    std::vector<std::uint64_t> hashes;  // by tile; 0: not written
  };
  std::vector<std::vector<Matrix>> matrices_;  // by shard
};

}  // namespace microscale
