// What each format would cost each layer: one pass over the weights in which every tile is
// quantized to all formats that its layer may get, and nothing is written.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "checkpoint/importance.hpp"
#include "checkpoint/model_plan.hpp"
#include "checkpoint/schedule.hpp"
#include "checkpoint/tile_quantizer.hpp"
#include "checkpoint/unit_runner.hpp"
#include "checkpoint/weighted_error.hpp"

namespace microscale {

class FormatErrors {
 public:
  /// Called after each tile with the bytes of input it is done with and the tensor; may throw. From
  /// one thread at a time.
  using Advance = std::function<void(std::int64_t bytes, std::string_view tensor)>;

  /// `formats`: of each tensor of the plan, none for those not to be measured; NVFP4 only where the
  /// plan has it, as global scales are those of its groups. All references must outlive this.
  /// Throws Error where options.importance does not fit the plan.
  FormatErrors(const ModelPlan& plan, const QuantizeModelOptions& options,
               const std::vector<std::vector<WeightFormat>>& formats);

  /// Bytes of input that run() reports in all.
  std::int64_t bytes() const;

  /// Measures all of it, within options.max_memory and on options.threads. Throws Error where an
  /// element cannot be quantized.
  void run(const TileQuantizerFactory& quantizers, const Advance& advance);

  /// Of a matrix of the plan, by the formats of its tensor: error of the output as a share of it.
  /// The same at any number of threads.
  std::vector<double> shares(std::size_t shard, std::size_t matrix) const;
  /// What the error is expected to add to the divergence of the model, in nats a token: half of the
  /// error under statistics by gradients. Of a matrix that these lack, its share of what an error
  /// as large as the output would add to the others, by their mean.
  std::vector<double> divergences(std::size_t shard, std::size_t matrix) const;

  /// Whether errors are divergences.
  bool by_gradients() const { return importance_ && importance_->by_gradients(); }

  /// Whether mean squares of its inputs are known.
  bool weighted(const QuantizedMatrix& matrix) const {
    return importance_ && importance_->has(matrix.slice.module);
  }

 private:
  std::vector<WeightedSums> totals(std::size_t shard, std::size_t matrix) const;
  double mean_power() const;
  const std::vector<WeightFormat>& formats_of(const QuantizedMatrix& matrix) const {
    return formats_[matrix.tensor];
  }
  const QuantizedMatrix& matrix_of(const Unit& unit) const {
    return plan_.shards[unit.shard].matrices[unit.item];
  }
  Workspace make_workspace(const TileQuantizerFactory& quantizers, int worker) const;
  void measure(const Unit& unit, Workspace& work);
  WeightedSums blocks(const Unit& unit, const Tile& tile, Format format,
                      std::span<const float> weights, Workspace& work);
  WeightedSums rows(const Unit& unit, const Tile& tile, std::span<const float> weights,
                    Workspace& work) const;

  const ModelPlan& plan_;
  const QuantizeModelOptions& options_;
  const std::vector<std::vector<WeightFormat>>& formats_;
  std::optional<Importance> importance_;
  WeightScan scan_;
  bool transposed_ = false;
  double mean_power_ = 1;
  std::int64_t longest_row_ = 0, most_rows_ = 0;  // of a tile
  // By shard, matrix, and tile after tile the formats.
  std::vector<std::vector<std::vector<WeightedSums>>> sums_;
};

}  // namespace microscale
