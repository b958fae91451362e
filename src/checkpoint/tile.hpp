// Weights as the converter handles them: matrices inside stored tensors, cut into tiles whose size
// depends on nothing but the matrix, so that results do not depend on threads or memory.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/file.hpp"
#include "checkpoint/matrix_slice.hpp"

namespace microscale {

/// Elements of a tile, at most: 4 MiB of FP32.
inline constexpr std::int64_t tile_elements = std::int64_t{1} << 20;

/// Rows [row, row + rows) x columns [col, col + cols). Either whole rows, or a piece of one row.
struct Tile {
  std::int64_t row = 0, rows = 0, col = 0, cols = 0;
  std::int64_t elements() const { return rows * cols; }
  bool operator==(const Tile&) const = default;
};

/// The tiles of a rows x cols matrix, in order. Where rows allow, they begin at multiples of
/// error_run_elements; pieces of a row begin at multiples of every block.
class TileGrid {
 public:
  TileGrid(std::int64_t rows, std::int64_t cols);
  std::int64_t count() const { return row_tiles_ * col_tiles_; }
  Tile tile(std::int64_t index) const;

 private:
  std::int64_t rows_, cols_, rows_per_tile_ = 1, cols_per_tile_ = 0, row_tiles_ = 0, col_tiles_ = 0;
};

/// Bytes of scratch that read_tile may need.
inline constexpr std::int64_t tile_scratch_bytes = std::int64_t{1} << 20;

/// Fills `out` with the elements of a tensor from `element` on, in row-major order.
using ElementReader = std::function<Status(std::int64_t element, std::span<std::uint8_t> out)>;

/// Reads a tile of `slice`, a matrix of the tensor that `read` reads, into `out`, row by row
/// without gaps. `out` holds tile.elements() elements of `element_bytes` (2 or 4) bytes.
Status read_tile(const ElementReader& read, const MatrixSlice& slice, const Tile& tile,
                 std::int64_t element_bytes, std::span<std::uint8_t> out,
                 std::span<std::uint8_t> scratch);

/// The same of a tensor that begins at byte `begin` of `file`.
Status read_tile(const InputFile& file, std::uint64_t begin, const MatrixSlice& slice,
                 const Tile& tile, std::int64_t element_bytes, std::span<std::uint8_t> out,
                 std::span<std::uint8_t> scratch);

/// First byte and length of what read_tile will read, for InputFile::will_need.
struct ByteRange {
  std::uint64_t begin = 0, length = 0;
};
ByteRange tile_range(std::uint64_t begin, const MatrixSlice& slice, const Tile& tile,
                     std::int64_t element_bytes);

}  // namespace microscale
