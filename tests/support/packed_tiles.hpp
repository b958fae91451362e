// Weights packed for GPUs on the host, element by element from layouts/fragment_tiles.hpp.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "layouts/fragment_tiles.hpp"
#include "microscale/tensor.hpp"

namespace microscale::test {

/// `matrices` matrices of rows x cols, one below the other in `b` (row-major scales); of `up` too
/// where gated.
inline std::vector<std::uint8_t> packed_tiles(const BlockTensor& b, std::int64_t matrices,
                                              const BlockTensor* up = nullptr) {
  namespace ft = fragment_tiles;
  const FormatInfo& facts = info(b.shape().format);
  const std::int64_t rows = b.shape().rows / matrices, cols = b.shape().cols;
  const std::int64_t tile_bytes = ft::tile_bytes(facts.code_bits, facts.block);
  const auto matrix_bytes =
      ft::matrix_bytes(rows, cols, up != nullptr, facts.code_bits, facts.block);
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(matrices * matrix_bytes));

  const auto scale_at = [&](const BlockTensor& from, std::int64_t row, std::int64_t col) {
    return from.scales()[static_cast<std::size_t>(row * (cols / facts.block) + col / facts.block)];
  };
  // Row `row` of tile row `tile`, of the tensor it comes from; -1: filling.
  const auto source_row = [&](std::int64_t matrix, std::int64_t tile, int row) {
    const std::int64_t own = up ? 8 * tile + row % 8 : 16 * tile + row;
    return own < rows ? matrix * rows + own : -1;
  };
  for (std::int64_t matrix = 0; matrix < matrices; ++matrix)
    for (std::int64_t tile = 0; tile < ft::row_tiles(rows, up != nullptr); ++tile)
      for (std::int64_t chunk = 0; chunk < ft::col_tiles(cols); ++chunk) {
        std::uint8_t* to = bytes.data() + matrix * matrix_bytes +
                           (tile * ft::col_tiles(cols) + chunk) * tile_bytes;
        for (int i = 0; i < 1024; ++i) {
          const int lane = i / 32, step = i / 8 % 4, v = i / 2 % 4, half = i % 2;
          const ft::Element at = ft::element(lane, step, v, half);
          const BlockTensor& from = up && at.row >= 8 ? *up : b;
          const std::int64_t row = source_row(matrix, tile, at.row), col = chunk * 64 + at.col;
          if (row < 0 || col >= cols) continue;
          const std::uint8_t* codes =
              from.codes().data() + row * from.shape().code_bytes_per_line();
          if (facts.code_bits == 8) {
            to[ft::byte_of(lane, step, v, half)] = codes[col];
          } else {
            const ft::Nibble place = ft::nibble(lane, step, v, half);
            const bool zero = !facts.e8m0_scale && (scale_at(from, row, col) & 0x7F) == 0;
            const int code = codes[col / 2] >> (col % 2 * 4) & (zero ? 8 : 15);
            to[place.byte] |= static_cast<std::uint8_t>(code << (place.low ? 0 : 4));
          }
        }
        for (int row = 0; row < 16; ++row)
          for (std::int64_t block = 0; block < 64 / facts.block; ++block) {
            const BlockTensor& from = up && row >= 8 ? *up : b;
            const std::int64_t own = source_row(matrix, tile, row);
            const std::int64_t col = chunk * 64 + block * facts.block;
            if (own < 0 || col >= cols) continue;
            const std::uint8_t scale = scale_at(from, own, col);
            to[ft::code_bytes(facts.code_bits) +
               ft::scale_of(row, static_cast<int>(block), facts.block)] =
                facts.e8m0_scale ? scale : ft::placed_scale(scale);
          }
        const auto each_word = [](std::uint8_t* first, std::int64_t count, auto&& as_packed) {
          for (std::int64_t at = 0; at < count; at += 4) {
            std::uint32_t word;
            std::memcpy(&word, first + at, 4);
            word = as_packed(word);
            std::memcpy(first + at, &word, 4);
          }
        };
        if (facts.code_bits == 4) each_word(to, ft::code_bytes(4), ft::code_word);
        if (!facts.e8m0_scale) each_word(to + ft::code_bytes(4), 64, ft::scale_word);
      }
  return bytes;
}

}  // namespace microscale::test
