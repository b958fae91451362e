// What a worker does with one unit of work: read, measure or quantize or copy, write.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "checkpoint/importance.hpp"
#include "checkpoint/kept_tiles.hpp"
#include "checkpoint/kept_values.hpp"
#include "checkpoint/layer_hessians.hpp"
#include "checkpoint/output_shards.hpp"
#include "checkpoint/schedule.hpp"
#include "checkpoint/tile.hpp"
#include "checkpoint/tile_cost.hpp"
#include "checkpoint/tile_quantizer.hpp"
#include "checkpoint/weight_scan.hpp"

namespace microscale {

/// What one worker computes with, and its buffers.
struct Workspace {
  /// With that quantizer's buffers; `scratch` and what follows it are empty.
  explicit Workspace(std::unique_ptr<TileQuantizer> tiles);

  std::unique_ptr<TileQuantizer> quantizer;
  std::span<std::uint8_t> input, codes, scales;  // the quantizer's
  std::vector<std::uint8_t> scratch;
  std::vector<float> weights;
  std::vector<std::uint16_t> row_scales;
  std::vector<float> wide_scales;  // the same as FP32
};

class UnitRunner {
 public:
  /// Called after each unit with the bytes of input it is done with and the tensor; may throw.
  using Advance = std::function<void(std::int64_t bytes, std::string_view tensor)>;

  /// All references must outlive this. Throws Error where options.importance does not fit the plan.
  UnitRunner(const ModelPlan& plan, const QuantizeModelOptions& options, OutputShards& output,
             Advance advance);

  /// Bytes of the buffers that make_workspace gives, and of what else a worker needs.
  std::int64_t worker_bytes() const;
  Workspace make_workspace(const TileQuantizerFactory& quantizers, int worker) const;

  /// Tells the kernel to begin reading what the unit will read.
  void prefetch(const Unit& unit) const;

  /// From many threads at once, each with its own workspace. True when the unit is done; false when
  /// it measured only, or when an element that is not finite was found (see scan()). Throws Error.
  bool run(const Unit& unit, Workspace& work);

  const WeightScan& scan() const { return scan_; }
  /// Those of the units that run must be ready.
  LayerHessians& hessians() { return *hessians_; }

  /// Settles the global scales of all groups with these units; call it when they are done, while no
  /// other unit runs.
  void settle_global_scales(const std::vector<Unit>& measured);

  /// Of weights whose codes stay, once all units are done.
  const TileHashes& kept_hashes() const { return kept_.hashes(); }

  /// Moves what was measured on the tensors of a shard whose units are all done into the report.
  void report_shard(std::size_t shard, ModelReport& report);

 private:
  const QuantizedMatrix& matrix_of(const Unit& unit) const {
    return plan_.shards[unit.shard].matrices[unit.item];
  }
  const TensorEntry& entry_of(std::size_t tensor) const { return *plan_.tensors[tensor].entry; }
  const DenseTensor& source_of(std::size_t tensor) const { return *plan_.tensors[tensor].source; }

  bool quantize_tile(const Unit& unit, Workspace& work);
  std::span<const float> weights_of(const QuantizedMatrix& matrix, const Tile& tile,
                                    Workspace& work) const;
  void quantize_blocks(const Unit& unit, const Tile& tile, Workspace& work);
  void quantize_rows(const Unit& unit, const Tile& tile, Workspace& work);
  void quantize_under_one_scale(const Unit& unit, const Tile& tile, Workspace& work);
  void write_blocks(const Unit& unit, const CodedTile& tile, float stored_global, Workspace& work);
  void write_scales(const Unit& unit, float stored_global);
  bool keep_tile(const Unit& unit, const Tile& tile, Workspace& work);
  void copy_piece(const Unit& unit, Workspace& work);
  void copy_slice(const Unit& unit, Workspace& work);
  TensorCost& cost_of(std::size_t tensor);

  const ModelPlan& plan_;
  const QuantizeModelOptions& options_;
  OutputShards& output_;
  Advance advance_;
  WeightScan scan_;
  KeptValues kept_values_;
  std::optional<Importance> importance_;
  std::optional<LayerHessians> hessians_;  // there once the constructor is through
  bool transposed_ = false;                // some matrix is read through Workspace::scratch
  bool packs_ = false;                     // the container's tiles are made in Workspace::scratch
  bool narrows_ = false;              // some kept weight is computed as F32 and written as BF16
  std::int64_t longest_row_ = 0;      // of all matrices
  std::int64_t row_scales_ = 0;       // of a tile with one scale for each row, at most
  std::vector<float> global_scales_;  // by group: decode multipliers
  std::mutex costs_mutex_;            // guards the making of an entry of costs_
  std::vector<std::unique_ptr<TensorCost>> costs_;  // by tensor; null before its first tile
  KeptTiles kept_;
};

}  // namespace microscale
