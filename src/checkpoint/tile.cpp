#include "checkpoint/tile.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "formats/integers.hpp"
#include "report/error_metrics.hpp"

namespace microscale {
namespace {

std::span<std::uint8_t> part(std::span<std::uint8_t> bytes, std::int64_t from, std::int64_t count) {
  return bytes.subspan(static_cast<std::size_t>(from), static_cast<std::size_t>(count));
}

// Columns of the matrix are runs of the tensor (or every other element of one). A stored run covers
// the tile's rows at one column; elements are put where the row-major tile wants them.
Status read_transposed(const ElementReader& read, const MatrixSlice& slice, const Tile& tile,
                       std::int64_t size, std::span<std::uint8_t> out,
                       std::span<std::uint8_t> scratch) {
  const std::int64_t most_rows = tile_scratch_bytes / (slice.row_step * size);
  for (std::int64_t row = 0; row < tile.rows; row += most_rows) {
    const std::int64_t rows = std::min(most_rows, tile.rows - row);
    const auto run = part(scratch, 0, ((rows - 1) * slice.row_step + 1) * size);
    for (std::int64_t col = 0; col < tile.cols; ++col) {
      const std::int64_t element = slice.element(tile.row + row, tile.col + col);
      if (Status status = read(element, run); !status) return status;
      std::uint8_t* to = out.data() + (row * tile.cols + col) * size;
      const std::uint8_t* from = run.data();
      const std::int64_t from_step = slice.row_step * size, to_step = tile.cols * size;
      for (std::int64_t r = 0; r < rows; ++r, from += from_step, to += to_step) {
        size == 4 ? std::memcpy(to, from, 4) : std::memcpy(to, from, 2);
      }
    }
  }
  return success();
}

}  // namespace

TileGrid::TileGrid(std::int64_t rows, std::int64_t cols) : rows_(rows), cols_(cols) {
  if (rows <= 0 || cols <= 0) return;
  cols_per_tile_ = std::min(cols, tile_elements);
  rows_per_tile_ = cols > tile_elements ? 1 : tile_elements / cols;
  const std::int64_t aligned_rows = error_run_elements / std::gcd(cols, error_run_elements);
  if (rows_per_tile_ > aligned_rows) rows_per_tile_ -= rows_per_tile_ % aligned_rows;
  row_tiles_ = ceil_div(rows, rows_per_tile_);
  col_tiles_ = ceil_div(cols, cols_per_tile_);
}

Tile TileGrid::tile(std::int64_t index) const {
  Tile tile;
  tile.row = index / col_tiles_ * rows_per_tile_;
  tile.rows = std::min(rows_per_tile_, rows_ - tile.row);
  tile.col = index % col_tiles_ * cols_per_tile_;
  tile.cols = std::min(cols_per_tile_, cols_ - tile.col);
  return tile;
}

Status read_tile(const ElementReader& read, const MatrixSlice& slice, const Tile& tile,
                 std::int64_t element_bytes, std::span<std::uint8_t> out,
                 std::span<std::uint8_t> scratch) {
  if (tile.elements() == 0) return success();
  if (slice.col_step != 1) {
    return read_transposed(read, slice, tile, element_bytes, out, scratch);
  }
  const bool whole_rows = tile.cols == slice.row_step;
  const std::int64_t runs = whole_rows ? 1 : tile.rows;
  const std::int64_t run_bytes = (whole_rows ? tile.elements() : tile.cols) * element_bytes;
  for (std::int64_t run = 0; run < runs; ++run) {
    const std::int64_t element = slice.element(tile.row + run, tile.col);
    Status status = read(element, part(out, run * run_bytes, run_bytes));
    if (!status) return status;
  }
  return success();
}

Status read_tile(const InputFile& file, std::uint64_t begin, const MatrixSlice& slice,
                 const Tile& tile, std::int64_t element_bytes, std::span<std::uint8_t> out,
                 std::span<std::uint8_t> scratch) {
  const struct {
    const InputFile& file;
    std::uint64_t begin;
    std::int64_t bytes;
  } place{file, begin, element_bytes};  // behind one pointer, which std::function keeps in itself
  return read_tile(
      [&place](std::int64_t element, std::span<std::uint8_t> elements) {
        return place.file.read_at(place.begin + static_cast<std::uint64_t>(element * place.bytes),
                                  elements);
      },
      slice, tile, element_bytes, out, scratch);
}

ByteRange tile_range(std::uint64_t begin, const MatrixSlice& slice, const Tile& tile,
                     std::int64_t element_bytes) {
  if (tile.elements() == 0) return {};
  const std::int64_t first = slice.element(tile.row, tile.col);
  const std::int64_t last = slice.element(tile.row + tile.rows - 1, tile.col + tile.cols - 1);
  return {begin + static_cast<std::uint64_t>(first * element_bytes),
          static_cast<std::uint64_t>((last - first + 1) * element_bytes)};
}

}  // namespace microscale
