#include "checkpoint/source_order.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "checkpoint/classifier.hpp"
#include "checkpoint/tile.hpp"
#include "checkpoint/weight_reader.hpp"

namespace microscale {
namespace {

constexpr std::int64_t sampled_rows = 8;
constexpr double same_direction = 0.9;  // of two rows, one of them quantized

struct Row {
  std::int64_t number = 0;
  std::vector<float> values;
  double squares = 0;
  std::vector<double> with_rows, with_columns;  // dot products with those of the original
};

// The number of the best match of a row, or -1.
std::int64_t best_match(const std::vector<double>& dots, const std::vector<double>& squares,
                        double own_squares) {
  std::int64_t best = -1;
  double most = same_direction;
  for (std::size_t i = 0; i < dots.size(); ++i) {
    const double size = std::sqrt(squares[i] * own_squares);
    if (!(size > 0) || dots[i] / size < most) continue;
    most = dots[i] / size;
    best = static_cast<std::int64_t>(i);
  }
  return best;
}

}  // namespace

std::string order_against(const QuantizedFolder& folder, const LogicalTensor& stored,
                          const DenseTensor& original, const MatrixSlice& slice) {
  const auto type = dense_type(original.entry.type);
  const std::int64_t rows = slice.rows, cols = slice.cols;
  if (!type || rows < 2 || cols < 2) return "";
  const bool square = rows == cols;
  PieceData data;
  std::vector<Row> sample(static_cast<std::size_t>(std::min(sampled_rows, rows)));
  for (std::size_t i = 0; i < sample.size(); ++i) {
    Row& row = sample[i];
    row.number = static_cast<std::int64_t>(i) * rows / static_cast<std::int64_t>(sample.size());
    take(read_piece(folder, {&stored, row.number * cols, cols}, data));
    row.values = data.values;
    for (const float value : row.values) row.squares += static_cast<double>(value) * value;
    row.with_rows.resize(static_cast<std::size_t>(rows));
    row.with_columns.resize(static_cast<std::size_t>(square ? cols : 0));
  }
  std::vector<double> row_squares(static_cast<std::size_t>(rows)),
      column_squares(static_cast<std::size_t>(cols));
  const TileGrid grid(rows, cols);
  std::vector<std::uint8_t> bytes, scratch(static_cast<std::size_t>(tile_scratch_bytes));
  std::vector<float> values;
  for (std::int64_t t = 0; t < grid.count(); ++t) {
    const Tile tile = grid.tile(t);
    bytes.resize(static_cast<std::size_t>(tile.elements() * size_of(*type)));
    take(original.read_tile(slice, tile, bytes, scratch));
    values.resize(static_cast<std::size_t>(tile.elements()));
    decode_dense(original.entry.type, bytes, values);
    for (std::int64_t i = 0; i < tile.elements(); ++i) {
      const double value = values[static_cast<std::size_t>(i)];
      const auto row = static_cast<std::size_t>(tile.row + i / tile.cols);
      const auto col = static_cast<std::size_t>(tile.col + i % tile.cols);
      row_squares[row] += value * value;
      column_squares[col] += value * value;
      for (Row& own : sample) {
        own.with_rows[row] += value * own.values[col];
        if (square) own.with_columns[col] += value * own.values[row];
      }
    }
  }
  std::size_t moved = 0, turned = 0;
  std::string example;
  for (const Row& row : sample) {
    turned += square && best_match(row.with_columns, column_squares, row.squares) == row.number;
    const std::int64_t match = best_match(row.with_rows, row_squares, row.squares);
    if (match < 0 || match == row.number) continue;
    if (moved++ == 0) example = fmt::format("row {} is row {} of the original", row.number, match);
  }
  if (turned * 4 >= sample.size() * 3) return "it is the original transposed";
  if (moved * 2 >= sample.size()) return "its rows are in another order: " + example;
  return "";
}

}  // namespace microscale
