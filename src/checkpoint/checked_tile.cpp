#include "checkpoint/checked_tile.hpp"

#include <algorithm>
#include <optional>

#include "checkpoint/bad_element.hpp"
#include "checkpoint/containers/scaled_weight.hpp"
#include "microscale/quantize.hpp"

namespace microscale {
namespace {

constexpr float too_large = 0x1p127f;
constexpr std::int64_t piece_elements = std::int64_t{1} << 17;

// Of a tile that lies in one piece, where it is known without decoding it and every element of the
// tile can be quantized.
std::optional<float> known_amax(const DenseTensor& source, const MatrixSlice& slice,
                                const Tile& tile) {
  const bool in_one = slice.col_step == 1 && (tile.rows == 1 || tile.cols == slice.row_step);
  if (!source.weight || !in_one) return std::nullopt;
  const auto amax =
      take(largest_magnitude(*source.weight, slice.element(tile.row, tile.col), tile.elements()));
  return amax && *amax < too_large ? amax : std::nullopt;
}

}  // namespace

Tile tile_of(const ModelPlan& plan, const Unit& unit) {
  const MatrixSlice& slice = plan.shards[unit.shard].matrices[unit.item].slice;
  return TileGrid(slice.rows, slice.cols).tile(unit.piece);
}

bool read_checked_tile(const ModelPlan& plan, const Unit& unit, const Tile& tile,
                       std::span<std::uint8_t> out, std::vector<std::uint8_t>& scratch,
                       WeightScan& scan) {
  const QuantizedMatrix& matrix = plan.shards[unit.shard].matrices[unit.item];
  const DenseTensor& source = *plan.tensors[matrix.tensor].source;
  const std::int64_t size = size_of(matrix.dtype);
  // Columns of the tensor are read whole; all else in pieces that are looked at while they are in
  // the cache.
  const std::int64_t rows = matrix.slice.col_step == 1
                                ? std::max<std::int64_t>(1, piece_elements / tile.cols)
                                : tile.rows;
  const bool measures = unit.kind == Unit::Kind::measure;
  if (const auto known = measures ? known_amax(source, matrix.slice, tile) : std::nullopt) {
    scan.add_amax(matrix.group, *known);
    return true;
  }
  float amax = 0;
  for (std::int64_t row = 0; row < tile.rows; row += rows) {
    const Tile piece{tile.row + row, std::min(rows, tile.rows - row), tile.col, tile.cols};
    // What is only measured takes the place of what was.
    const auto bytes = out.subspan(static_cast<std::size_t>(measures ? 0 : row * tile.cols * size),
                                   static_cast<std::size_t>(piece.elements() * size));
    take(source.read_tile(matrix.slice, piece, bytes, scratch));
    const AbsMax range = abs_max(
        {bytes.data(), matrix.dtype, 1, piece.elements(), piece.elements()}, {.threads = 1});
    amax = std::max(amax, range.amax);
    std::int64_t bad = range.non_finite;
    if (bad < 0 && range.amax >= too_large) bad = find_huge(bytes, matrix.dtype);
    if (bad < 0) continue;
    using Bad = WeightScan::Bad;
    const Bad what = range.non_finite < 0                              ? Bad::huge
                     : is_nan(bytes.data() + bad * size, matrix.dtype) ? Bad::nan
                                                                       : Bad::infinite;
    scan.add_bad(
        {unit.shard, unit.item, piece.row + bad / tile.cols, tile.col + bad % tile.cols, what});
    return false;
  }
  if (measures) scan.add_amax(matrix.group, amax);
  return true;
}

}  // namespace microscale
