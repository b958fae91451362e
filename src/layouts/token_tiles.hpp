// A matrix of 16-bit elements, rows of k, as wgmma reads it from shared memory, so that any
// multiple of eight rows at one chunk of 64 elements of k is one linear copy:
//
//   [matrix][chunk of 64 elements of k][group of 8 rows][8 rows x 128 bytes]
//
// Inside a row's 128 bytes chunk c of 16 stands at c ^ (row % 8). k and rows are filled up with
// zeros. Experts' rows share one matrix of rows; each expert has groups of its own, the first of
// them a function of its first row alone, so that no block needs a sum over experts; what may lie
// between two experts' groups belongs to no expert.
#pragma once

#include <cstdint>

#include "formats/host_device.hpp"

namespace microscale::token_tiles {

inline constexpr std::int64_t chunk = 64;          // elements
inline constexpr std::int64_t group = 8;           // rows
inline constexpr std::int64_t group_bytes = 1024;  // of one chunk

MICROSCALE_HD constexpr std::int64_t chunks(std::int64_t k) { return (k + chunk - 1) / chunk; }
MICROSCALE_HD constexpr std::int64_t groups(std::int64_t rows) {
  return (rows + group - 1) / group;
}

/// The first group of matrix `matrix` of a batch of `rows` rows each.
MICROSCALE_HD constexpr std::int64_t first_group(std::int64_t matrix, std::int64_t rows) {
  return matrix * groups(rows);
}
/// The first group of expert `expert`, whose rows begin with `first_row`: at least as many groups
/// behind the expert before it as that one's rows need.
MICROSCALE_HD constexpr std::int64_t first_group_of_expert(std::int64_t expert,
                                                           std::int64_t first_row) {
  return first_row / group + expert;
}

/// Groups of all matrices, those of no expert included.
MICROSCALE_HD constexpr std::int64_t all_groups(std::int64_t rows, std::int64_t matrices,
                                                bool experts) {
  return experts ? groups(rows) + matrices : matrices * groups(rows);
}
MICROSCALE_HD constexpr std::int64_t bytes(std::int64_t rows, std::int64_t matrices, bool experts,
                                           std::int64_t k) {
  return all_groups(rows, matrices, experts) * chunks(k) * group_bytes;
}

/// Where eight elements of a row lie, those from element 8 * piece of the chunk on, in the row's
/// group of one chunk.
MICROSCALE_HD constexpr std::int64_t piece_offset(std::int64_t row, std::int64_t piece) {
  return row % group * 128 + (piece ^ row % group) * 16;
}

}  // namespace microscale::token_tiles
