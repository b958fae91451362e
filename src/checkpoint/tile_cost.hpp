// What quantizing cost, measured on the tile that was just quantized while it is still in the
// cache.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "checkpoint/matrix_slice.hpp"
#include "checkpoint/tile.hpp"
#include "report/model_report.hpp"

namespace microscale {

/// Worst blocks kept of each tensor.
inline constexpr std::size_t worst_blocks_per_tensor = 2;

/// A quantized tile: its elements row by row without gaps, all finite, and what became of them.
struct QuantizedTile {
  const MatrixSlice* slice = nullptr;
  Tile tile;
  DType dtype = DType::f32;
  const void* elements = nullptr;
  Format format = Format::nvfp4;
  float global_scale = 1.0f;  // NVFP4 decode multiplier
  std::span<const std::uint8_t> codes, scales;
};

struct TileCost {
  ErrorSums error;
  CodeHistogram scale_codes{}, element_codes{};
  std::vector<WorstBlock> worst_blocks;    // worst first
  WeightedSums output, output_unweighted;  // of TensorReport; nothing without statistics
};

TileCost measure_tile(const QuantizedTile& quantized);

/// Elements [first, first + count) as FP32.
void load_elements(const void* elements, DType dtype, std::int64_t first, std::int64_t count,
                   float* out);

/// The tiles of one stored tensor together. The same result in whatever order they come: figures
/// are summed in the order of the tiles, and ties between blocks go to the one that comes first.
class TensorCost {
 public:
  explicit TensorCost(std::int64_t tiles)
      : errors_(static_cast<std::size_t>(tiles)),
        outputs_(errors_.size()),
        unweighted_(errors_.size()) {}

  /// May be called from many threads at once.
  void add(std::int64_t tile, TileCost&& cost);

  /// Fills in error, blocks, histograms and worst blocks.
  void finish(TensorReport& report) const;

 private:
  std::mutex mutex_;
  std::vector<ErrorSums> errors_;
  std::vector<WeightedSums> outputs_, unweighted_;
  TileCost total_;
};

}  // namespace microscale
