// Experts by counts, each in rows of its own that are as many for all, against the same rows one
// expert's behind the other's, by offsets.
#pragma once

#include <algorithm>

#include "support/hopper_products.hpp"

namespace microscale::emulator {

/// Where each row of `p` is when experts' rows follow each other; nobody's come last.
inline std::vector<std::int64_t> places_by_offsets(const Product& p) {
  std::vector<std::int64_t> places(static_cast<std::size_t>(p.rows()), -1);
  std::int64_t next = 0;
  for (std::int64_t expert = 0; expert < p.matrices; ++expert)
    for (auto [row, end] = p.rows_of(expert); row < end; ++row)
      places[static_cast<std::size_t>(row)] = next++;
  for (std::int64_t& place : places)
    if (place < 0) place = next++;
  return places;
}

/// Rows of all matrices, each to where `places` has it.
template <class From, class To>
void move_rows(const From& from, To&& to, const std::vector<std::int64_t>& places) {
  const auto row = static_cast<std::int64_t>(from.size() / places.size());
  for (std::size_t i = 0; i < places.size(); ++i)
    std::copy_n(from.begin() + static_cast<std::int64_t>(i) * row, row,
                to.begin() + places[i] * row);
}

inline Product by_offsets(const Product& p) {
  const std::vector<std::int64_t> places = places_by_offsets(p);
  Product other = p;
  if (p.a.dense) {
    Matrix a = *p.a.dense;
    move_rows(p.a.dense->bytes, a.bytes, places);
    other.a = Side(std::move(a));
  } else {
    BlockTensor a(p.a.blocks->shape());
    move_rows(p.a.blocks->codes(), a.codes(), places);
    move_rows(p.a.blocks->scales(), a.scales(), places);
    other.a = Side(std::move(a));
  }
  move_rows(p.row_weights, other.row_weights, places);
  other.offsets = {0};
  for (const std::int64_t count : p.counts) other.offsets.push_back(other.offsets.back() + count);
  other.counts = {};
  other.capacity = 0;
  return other;
}

/// Runs `p` by counts and by offsets: the same bytes of the same rows, and nobody's untouched.
template <class Compute>
::testing::AssertionResult same_by_offsets(const Product& p, Compute&& compute) {
  const Matrix d = compute(p), other = compute(by_offsets(p));
  std::vector<std::uint8_t> moved(d.bytes.size());
  move_rows(d.bytes, moved, places_by_offsets(p));
  if (moved != other.bytes)
    return ::testing::AssertionFailure() << "by offsets the rows have other bytes";
  return near_exact(p, d);
}

/// Runs `p` without a look at races, which experts of the same rows have; the emulator finds fault
/// with what lies outside of memory. What is computed is unspecified.
template <class Compute>
void expect_within_memory(const Product& p, Compute&& compute) {
  device().options.races = false;
  EXPECT_NO_THROW(compute(p));
  device().options.races = true;
}

/// Offsets against their contract, of an even number of experts: every other one has all rows but
/// the last 50, which are the last expert's alone.
inline std::vector<std::int64_t> decreasing_offsets(std::int64_t rows, int experts) {
  std::vector<std::int64_t> offsets{0};
  for (int expert = 1; expert < experts; ++expert)
    offsets.push_back(expert % 2 == 1 ? rows - 50 : 0);
  offsets.push_back(rows);
  return offsets;
}
/// Offsets whose scales have as many tiles as can be: the last expert has nearly all rows.
inline std::vector<std::int64_t> most_tiles_offsets(std::int64_t rows, int experts) {
  std::vector<std::int64_t> offsets;
  for (int expert = 0; expert < experts; ++expert) offsets.push_back(expert);
  offsets.push_back(rows);
  return offsets;
}

}  // namespace microscale::emulator
