// Tiles of weights whose codes stay: read as blocks, as they are or MXFP4 as NVFP4, and counted and
// hashed on the way.
#pragma once

#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "checkpoint/model_plan.hpp"
#include "checkpoint/schedule.hpp"
#include "checkpoint/tile_hashes.hpp"
#include "checkpoint/weight_scan.hpp"
#include "report/model_report.hpp"
#include "seam/tile_quantizer.hpp"

namespace microscale {

/// A tile as it is written, in the buffers that it was made in.
struct KeptTile {
  CodedTile tile;
  float stored_global = 1.0f;  // what the tensor of the global scale holds
  ErrorSums error;             // of blocks that were searched
};

/// convert() and measure() may be called from many threads at once, each with its own buffers.
class KeptTiles {
 public:
  /// All must outlive this. NaN goes to `scan`.
  KeptTiles(const ModelPlan& plan, const QuantizeModelOptions& options, WeightScan& scan)
      : plan_(plan), options_(options), scan_(scan), hashes_(plan), sums_(plan.tensors.size()) {}

  /// Of MXFP4 that becomes NVFP4: tells `scan` how large the global scale must be.
  void measure(const Unit& unit, const Tile& tile, const TileBuffers& buffers);

  /// `global_scales`: decode multipliers of the plan's groups. Nothing where a block is NaN. Throws
  /// Error{bad_input} where a block cannot be cast and options.keep_codes->exact.
  std::optional<KeptTile> convert(const Unit& unit, const Tile& tile, const TileBuffers& buffers,
                                  const std::vector<float>& global_scales);

  /// Of a tensor whose tiles are all done.
  KeptSums sums(std::size_t tensor) const;

  /// Of all tiles that were converted.
  const TileHashes& hashes() const { return hashes_; }

 private:
  const QuantizedMatrix& matrix_of(const Unit& unit) const {
    return plan_.shards[unit.shard].matrices[unit.item];
  }
  bool read(const Unit& unit, const Tile& tile, std::span<std::uint8_t> codes,
            std::span<std::uint8_t> scales);
  [[noreturn]] void refuse(const QuantizedMatrix& matrix, std::int64_t blocks) const;

  const ModelPlan& plan_;
  const QuantizeModelOptions& options_;
  WeightScan& scan_;
  TileHashes hashes_;
  mutable std::mutex mutex_;
  std::vector<KeptSums> sums_;  // by tensor
};

}  // namespace microscale
