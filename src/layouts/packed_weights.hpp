// What pack_weights writes for the CPU: rows of codes, then rows of block scales, matrix by matrix,
// so that a kernel finds both in the order in which it reads them whatever layout they came in.
// A gate and an up matrix alternate row by row.
//
//   header (64 bytes) | codes of matrix 0 | scales of matrix 0 | codes of matrix 1 | ...
//
// Each part begins at a multiple of 64 bytes; the gaps are zero.
#pragma once

#include <cstdint>

#include "microscale/tensor.hpp"

namespace microscale::packed_weights {

inline constexpr std::int64_t alignment = 64;
inline constexpr std::uint32_t magic = 0x5750534Du;  // "MSPW"

/// At the start of the bytes; what a product compares with the view it is given.
struct Header {
  std::uint32_t magic = packed_weights::magic;
  std::uint32_t format = 0;
  std::int64_t rows = 0, cols = 0, matrices = 0;
  std::uint32_t gated = 0;
  std::uint32_t reserved[5] = {};
  bool operator==(const Header&) const = default;
};
static_assert(sizeof(Header) <= alignment, "the header has 64 bytes");

constexpr std::int64_t round_up(std::int64_t bytes) {
  return (bytes + alignment - 1) / alignment * alignment;
}

/// Sizes for one matrix of `shape`, n x k, twice the rows where gated.
struct Parts {
  std::int64_t code_stride, scale_stride;  // of one row
  std::int64_t code_bytes, scale_bytes;    // of one matrix, gaps included

  Parts(const BlockShape& shape, bool gated)
      : code_stride(shape.code_bytes_per_line()), scale_stride(shape.blocks_per_line()) {
    const std::int64_t lines = shape.lines() * (gated ? 2 : 1);
    code_bytes = round_up(lines * code_stride);
    scale_bytes = round_up(lines * scale_stride);
  }
  std::int64_t codes_at(std::int64_t matrix) const {
    return alignment + matrix * (code_bytes + scale_bytes);
  }
  std::int64_t scales_at(std::int64_t matrix) const { return codes_at(matrix) + code_bytes; }
  std::int64_t total(std::int64_t matrices) const { return codes_at(matrices); }
};

}  // namespace microscale::packed_weights
