// Which rows of a matrix are an expert's, and where the block scales of many experts lie in one
// buffer: 128x4 tiles expert by expert, each padded to whole tiles; the same sums on a host and in
// a kernel.
#pragma once

#include <cstdint>

#include "formats/host_device.hpp"

namespace microscale::grouped {

/// Rows [first, first + count) of a matrix.
struct RowSpan {
  std::int64_t first, count;
};

inline constexpr std::int64_t no_capacity = -1;

/// What tells the rows of experts. no_capacity: numbers are offsets, expert e has rows [numbers[e],
/// numbers[e + 1]). Else they are counts: expert e has the first numbers[e] rows of
/// [e * capacity, (e + 1) * capacity).
struct ExpertTable {
  const void* numbers;
  bool wide;  // numbers of 8 bytes, else of 4
  std::int64_t capacity;
  std::int64_t rows;  // of the matrix
};

MICROSCALE_HD inline std::int64_t number_at(const ExpertTable& table, std::int64_t index) {
  return table.wide ? static_cast<const std::int64_t*>(table.numbers)[index]
                    : static_cast<const std::int32_t*>(table.numbers)[index];
}

/// The rows of an expert; they lie within its capacity and the matrix, whatever memory holds.
MICROSCALE_HD inline RowSpan rows_of_expert(const ExpertTable& table, std::int64_t expert) {
  const auto within = [](std::int64_t value, std::int64_t most) {
    return value < 0 ? 0 : value < most ? value : most;
  };
  const std::int64_t number = number_at(table, expert);
  if (table.capacity >= 0) return {expert * table.capacity, within(number, table.capacity)};
  const std::int64_t first = within(number, table.rows),
                     end = within(number_at(table, expert + 1), table.rows);
  return {first, end > first ? end - first : 0};
}

/// The rows that an expert's region of 128x4 tiles is for: its own, or with counts its capacity, so
/// that regions begin where no count matters.
MICROSCALE_HD constexpr std::int64_t region_rows(std::int64_t capacity, std::int64_t count) {
  return capacity >= 0 ? capacity : count;
}

/// Rows of tiles of an expert with `rows` rows, a tile row being `height` rows.
MICROSCALE_HD constexpr std::int64_t tile_rows(std::int64_t rows, std::int64_t height) {
  return (rows + height - 1) / height;
}

/// The most there can be over all experts, however `rows` rows are shared out: each that has a row
/// has a tile row begun, and every `height` rows more fill another.
MICROSCALE_HD constexpr std::int64_t most_tile_rows(std::int64_t rows, std::int64_t experts,
                                                    std::int64_t height) {
  const std::int64_t begun = rows < experts ? rows : experts;
  return begun + (begun > 0 ? (rows - begun) / height : 0);
}

/// `before`, the tile rows of the experts in front of one with `count` rows; not so many that its
/// own would lie behind the most there can be, as they might with offsets that decrease.
MICROSCALE_HD constexpr std::int64_t tile_rows_before(std::int64_t before, std::int64_t count,
                                                      std::int64_t rows, std::int64_t experts,
                                                      std::int64_t height) {
  const std::int64_t most = most_tile_rows(rows, experts, height) - tile_rows(count, height);
  return before < most ? before : most;
}

}  // namespace microscale::grouped
