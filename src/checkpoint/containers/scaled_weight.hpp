// Weights of one-byte floats and scales that each hold for a rectangle of elements: a tensor, a
// row, a block of 128 x 128.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/containers/stored_weight.hpp"

namespace microscale {

/// Which scale holds for which element of a weight [matrices, rows, cols]. Rectangles at the lower
/// and right edge may be cropped.
struct ScaleGrid {
  std::int64_t matrices = 1, rows = 0, cols = 0;
  std::int64_t block_rows = 0, block_cols = 0;  // elements under one scale
  std::int64_t grid_rows = 0, grid_cols = 0;    // scales of one matrix
  bool shared = false;                          // by all matrices

  /// "one scale per 128 x 128 block", "one scale per row".
  std::string description() const;
  bool operator==(const ScaleGrid&) const = default;
};

/// The grid of a weight of this shape (two or three dimensions, none 0) and scales of that; `block`
/// is what config.json says of blocks. Nothing if they do not fit, or fit in more than one way.
std::optional<ScaleGrid> fit_scale_grid(
    const std::vector<std::int64_t>& weight, const std::vector<std::int64_t>& scales,
    const std::optional<std::pair<std::int64_t, std::int64_t>>& block);

/// Whether such weights are read with scales of this type: F32, BF16, F16, F8_E8M0 and U8, which
/// means the same.
bool is_scale_type(StoredType type);

/// The grid of a weight that make_scaled_weight made; null for any other.
const ScaleGrid* grid_of(const StoredWeight& weight);

/// Scales [first, first + out.size()) of such a weight, in the order of the grid.
Status read_scales(const StoredWeight& weight, std::int64_t first, std::span<float> out);

/// Of values [first, first + count), from the codes alone. Nothing where it is infinite or a value
/// is NaN, and of a weight of another kind, or of type BF16.
Result<std::optional<float>> largest_magnitude(const StoredWeight& weight, std::int64_t first,
                                               std::int64_t count);

/// value = code * scale. `facts` has codes and scales as its first two parts, of F8_E4M3 or F8_E5M2
/// and a scale type; its type is BF16 where scales are powers of two, else F32.
std::unique_ptr<StoredWeight> make_scaled_weight(WeightFacts facts, const ScaleGrid& grid,
                                                 const ModelFolder& model);

}  // namespace microscale
