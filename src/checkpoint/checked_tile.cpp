#include "checkpoint/checked_tile.hpp"

#include "checkpoint/bad_element.hpp"
#include "microscale/quantize.hpp"

namespace microscale {

Tile tile_of(const ModelPlan& plan, const Unit& unit) {
  const MatrixSlice& slice = plan.shards[unit.shard].matrices[unit.item].slice;
  return TileGrid(slice.rows, slice.cols).tile(unit.piece);
}

bool read_checked_tile(const ModelPlan& plan, const Unit& unit, const Tile& tile,
                       std::span<std::uint8_t> out, std::vector<std::uint8_t>& scratch,
                       WeightScan& scan) {
  const QuantizedMatrix& matrix = plan.shards[unit.shard].matrices[unit.item];
  const std::int64_t size = size_of(matrix.dtype);
  const auto bytes = out.first(static_cast<std::size_t>(tile.elements() * size));
  take(plan.tensors[matrix.tensor].source->read_tile(matrix.slice, tile, bytes, scratch));
  const AbsMax range =
      abs_max({out.data(), matrix.dtype, 1, tile.elements(), tile.elements()}, {.threads = 1});
  std::int64_t bad = range.non_finite;
  if (bad < 0 && range.amax >= 0x1p127f) bad = find_huge(bytes, matrix.dtype);
  if (bad < 0) {
    if (unit.kind == Unit::Kind::measure) scan.add_amax(matrix.group, range.amax);
    return true;
  }
  using Bad = WeightScan::Bad;
  const Bad what = range.non_finite < 0                            ? Bad::huge
                   : is_nan(out.data() + bad * size, matrix.dtype) ? Bad::nan
                                                                   : Bad::infinite;
  scan.add_bad(
      {unit.shard, unit.item, tile.row + bad / tile.cols, tile.col + bad % tile.cols, what});
  return false;
}

}  // namespace microscale
