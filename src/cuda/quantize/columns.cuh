// Dense to block-scaled along columns, and along both axes from one read.
//
// A thread block brings 128 rows x 256 bytes into shared memory. A thread takes pairs
// (line_pair.cuh) from there: sixteen elements of two neighbouring rows, or sixteen rows of two
// columns, whose elements it pairs along the block axis as the encoders want them. Eight lanes lie
// along the block axis, so a store instruction writes whole sectors of each line: 128 bytes of
// MXFP8 codes.
//
// 16-byte chunk k of row r lies at k ^ (r / 16) of its row: columns are read by words from eight
// groups of 16 rows at once, rows in 16-byte pieces by eight lanes of two such groups (16-bit
// types) or of eight (FP32), neither with bank conflicts. The two halves of a 32-byte sector stay
// side by side: a copy that parts them fetches the sector twice.
//
// Scale bytes are gathered in shared memory and leave as words, zeros where the layout pads. A word
// of row-major scales is a part of a 32-byte sector that eight thread blocks fill: the L2 is told
// to keep it, since a sector that leaves half full has to be read again.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/ptx/async_copy.cuh"
#include "cuda/quantize/line_pair.cuh"
#include "cuda/quantize/args.hpp"
#include "formats/integers.hpp"
#include "layouts/tiled_128x4.hpp"

namespace microscale::cuda {

template <class Format, class Input>
struct ColumnsTile {
  static constexpr int rows = columns_tile_rows;
  static constexpr int row_bytes = columns_tile_row_bytes;
  static constexpr int cols = row_bytes / Input::element_bytes;
  static constexpr int chunks = row_bytes / 16;  // of a row, 16 bytes each
  static constexpr int chunk_cols = 16 / Input::element_bytes;
  static constexpr int pairs = cols / pair_elements;                  // of a row: 8 or 4
  static constexpr int pair_chunks = chunks / pairs;                  // 2 or 4
  static constexpr int steps = rows * cols / 32 / threads_per_block;  // pairs of a thread
  static constexpr bool is_split = Format::block > pair_elements;
  static constexpr int row_scales = cols / Format::block;     // bytes of a row
  static constexpr int column_scales = rows / Format::block;  // bytes of a column

  struct Memory {
    uint4 elements[rows * chunks];
    alignas(8) std::uint8_t rows_scales[rows * row_scales];
    alignas(8) std::uint8_t columns_scales[cols * column_scales];
  };

  const ColumnsArgs& args;
  typename Format::Shared shared;
  Memory& memory;
  std::int64_t first_row, first_col;
  int rows_left, cols_left;  // of the matrix in this tile; may be more than it holds

  __device__ void load() const {
    const int k = static_cast<int>(threadIdx.x % chunks);
    const int r0 = static_cast<int>(threadIdx.x / chunks);
    const QuantizeArgs& in = args.rows;
    const std::int64_t step = in.row_stride * (Input::element_bytes * threads_per_block / chunks);
    const auto target =
        static_cast<std::uint32_t>(__cvta_generic_to_shared(memory.elements + r0 * chunks));
    const int bytes = min((cols_left - k * chunk_cols) * Input::element_bytes, 16);
    const char* source =
        static_cast<const char*>(in.input) +
        ((first_row + r0) * in.row_stride + first_col + k * chunk_cols) * Input::element_bytes;
    static_assert(threads_per_block / chunks == 16, "one step down is one step of the swizzle");
    if (rows_left == rows && cols_left == cols) {
#pragma unroll
      for (int i = 0; i < rows / 16; ++i)
        ptx::cp_async_cg_shared_global_16(
            target + static_cast<std::uint32_t>(i * 16 * row_bytes + (k ^ i) * 16),
            source + i * step);
    } else {
#pragma unroll
      for (int i = 0; i < rows / 16; ++i) {
        const bool inside = bytes > 0 && r0 + 16 * i < rows_left;
        ptx::cp_async_cg_shared_global_16(
            target + static_cast<std::uint32_t>(i * 16 * row_bytes + (k ^ i) * 16),
            inside ? source + i * step : static_cast<const char*>(in.input),
            inside ? static_cast<std::uint32_t>(bytes) : 0u);
      }
    }
    ptx::cp_async_wait_all();
  }

  // Rows r and r + 1, pair u of them.
  __device__ void quantize_rows(int step) const {
    const int lane = static_cast<int>(threadIdx.x % 32);
    const int task = static_cast<int>(threadIdx.x / 32) + step * (threads_per_block / 32);
    int u, r;
    if constexpr (pairs == 8) {  // two pairs of rows in each of two groups of 16
      u = (lane & 3) + (lane >> 1 & 4);
      r = (task / 4 * 2 + (lane >> 2 & 1)) * 16 + task % 4 * 4 + (lane >> 4) * 2;
    } else {  // a pair of rows in each of eight groups
      u = lane / 8;
      r = lane % 8 * 16 + task * 2;
    }
    const QuantizeArgs& to = args.rows;
    const auto chunk = [&](int line, int j) {
      return memory.elements[(r + line) * chunks + ((u * pair_chunks + j) ^ (r / 16))];
    };
    const auto pair = [&] {
      LinePair<Input> s;
#pragma unroll
      for (int i = 0; i < 2 * pair_chunks; ++i) {
        const int line = i / pair_chunks, j = i % pair_chunks;
        const uint4 v = chunk(line, j);
        std::uint32_t* w = &s.w[line][j * 2 / pair_chunks][j * 4 % Input::words];
        w[0] = v.x, w[1] = v.y, w[2] = v.z, w[3] = v.w;
      }
      return s;
    };
    std::uint8_t* codes = to.codes + (first_row + r) * to.code_stride +
                          (first_col + u * pair_elements) * Format::code_bits / 8;
    std::uint8_t* scales = memory.rows_scales + r * row_scales + u * pair_elements / Format::block;
    const bool inside = u * pair_elements < cols_left;
    const LinePairTarget target{{codes, codes + to.code_stride},
                                {inside && r < rows_left, inside && r + 1 < rows_left},
                                {scales, scales + row_scales}};
    constexpr int partner = is_split ? (pairs == 8 ? 1 : 8) : 0;
    if constexpr (encodes_words<Format, Input>) {
      if (to.nan_propagates) {
        std::uint32_t w[16];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const uint4 v = chunk(i / 2, i % 2);
          w[4 * i] = v.x, w[4 * i + 1] = v.y, w[4 * i + 2] = v.z, w[4 * i + 3] = v.w;
        }
        quantize_words<Format, Input, false, partner>(to, shared, w, pair, u % 2 == 0, target);
        return;
      }
    }
    quantize_pair<Format, Input, partner>(to, shared, pair(), u % 2 == 0, target);
  }

  // Sixteen rows of two columns: the halves of a word, or FP32 elements four columns apart.
  __device__ void quantize_columns(int step) const {
    const int group = static_cast<int>(threadIdx.x % 8);  // of 16 rows
    const int q = static_cast<int>(threadIdx.x / 8 % 4);
    const int task = static_cast<int>(threadIdx.x / 32) + step * (threads_per_block / 32);
    const auto* words =
        reinterpret_cast<const std::uint32_t*>(memory.elements) + group * 16 * (row_bytes / 4) + q;
    constexpr int lines_chunks = Input::element_bytes / 2;  // 16-byte chunks that hold the columns
    const auto word = [&](int i, int line) {
      return words[i * (row_bytes / 4) + ((lines_chunks * task + line) ^ group) * 4];
    };
    const auto pair = [&] {
      LinePair<Input> s;
#pragma unroll
      for (int i = 0; i < 16; ++i) {
        if constexpr (Input::element_bytes == 4) {
          s.w[0][i / 8][i % 8] = word(i, 0);
          s.w[1][i / 8][i % 8] = word(i, 1);
        } else if (i % 2 == 0) {
          const std::uint32_t a = word(i, 0), b = word(i + 1, 0);
          s.w[0][i / 8][i % 8 / 2] = __byte_perm(a, b, 0x5410);
          s.w[1][i / 8][i % 8 / 2] = __byte_perm(a, b, 0x7632);
        }
      }
      return s;
    };
    constexpr int apart = Input::element_bytes == 2 ? 1 : 4;
    const int c = task * 8 + (apart == 1 ? 2 * q : q);
    std::uint8_t* codes = args.codes + (first_col + c) * args.code_stride +
                          (first_row + group * pair_elements) * Format::code_bits / 8;
    std::uint8_t* scales =
        memory.columns_scales + c * column_scales + group * pair_elements / Format::block;
    const bool inside = group * pair_elements < rows_left;
    const LinePairTarget target{{codes, codes + apart * args.code_stride},
                                {inside && c < cols_left, inside && c + apart < cols_left},
                                {scales, scales + apart * column_scales}};
    constexpr int partner = is_split ? 1 : 0;
    if constexpr (encodes_words<Format, Input>) {
      if (args.rows.nan_propagates) {
        std::uint32_t w[16];
#pragma unroll
        for (int i = 0; i < 16; ++i) w[i] = word(i, 0);
        quantize_words<Format, Input, true, partner>(args.rows, shared, w, pair, group % 2 == 0,
                                                     target);
        return;
      }
    }
    quantize_pair<Format, Input, partner>(args.rows, shared, pair(), group % 2 == 0, target);
  }

  __device__ static void store(std::uint8_t* target, std::uint16_t word, std::uint64_t policy) {
    ptx::st_global_l2_cache_hint_b16(target, word, policy);
  }
  __device__ static void store(std::uint8_t* target, std::uint32_t word, std::uint64_t policy) {
    ptx::st_global_l2_cache_hint_b32(target, word, policy);
  }

  // Scale bytes of Lines lines, Bytes of each, gathered in shared memory; that many threads store
  // them. lines_left and blocks are the tensor's, counted from first_line and from a line's start.
  // Unsigned where that makes divisions shifts.
  template <int Lines, int Bytes>
  __device__ void store_scales(const std::uint8_t* gathered, unsigned thread,
                               std::uint64_t first_line, int lines_left, std::uint64_t first_block,
                               std::int64_t blocks, std::uint8_t* scales) const {
    using Word = std::conditional_t<Bytes == 2, std::uint16_t, std::uint32_t>;
    constexpr int size = sizeof(Word);
    const std::uint64_t policy = ptx::createpolicy_fractional_l2_evict_last();
    const auto left = static_cast<int>(
        min(blocks - static_cast<std::int64_t>(first_block), static_cast<std::int64_t>(Bytes)));
    if (args.tiled) {
      // Where lines lie 32 apart side by side, so do the threads that store them.
      const unsigned line = thread % (Lines / 32) * 32 + thread / (Lines / 32);
      const unsigned tile_line = static_cast<unsigned>(first_line % 128) + line;
      const std::uint64_t tile =
          first_line / 128 * (static_cast<std::uint64_t>(blocks + 3) / 4) + first_block / 4;
      std::uint8_t* const target = scales + tile * tiled_128x4::tile_bytes + tile_line % 32 * 16 +
                                   tile_line / 32 * 4 + first_block % 4;
#pragma unroll
      for (int i = 0; i < Bytes / size; ++i) {
        std::uint32_t word = reinterpret_cast<const Word*>(gathered + line * Bytes)[i];
        const int here = left - i * size;
        if (here < size) word = here > 0 ? word & ((1u << (8 * here)) - 1u) : 0u;
        if (static_cast<int>(line) >= lines_left) word = 0;
        // A tile exists if its first block does.
        if (here + static_cast<int>(first_block % 4) > 0)
          store(target + i * tiled_128x4::tile_bytes, static_cast<Word>(word), policy);
      }
      return;
    }
    if (static_cast<int>(thread) >= lines_left) return;
    const std::uint8_t* const source = gathered + thread * Bytes;
    std::uint8_t* const target = scales + (first_line + thread) * blocks + first_block;
    if (Bytes == 8 && blocks % 8 == 0) {
      const uint2 words = *reinterpret_cast<const uint2*>(source);
      ptx::st_global_l2_cache_hint_v2(target, words.x, words.y, policy);
    } else if (blocks % size == 0) {
#pragma unroll
      for (int i = 0; i < Bytes / size; ++i)
        if (i * size < left)
          store(target + i * size, reinterpret_cast<const Word*>(source)[i], policy);
    } else {
      for (int i = 0; i < left; ++i) target[i] = source[i];
    }
  }
};

/// Thread blocks a multiprocessor shall hold: what bounds the registers of a thread.
template <class Format, class Input>
inline constexpr int resident_columns_blocks =
    Format::searches || Input::element_bytes == 4 ? 4 : 5;

/// Rows: along both axes; otherwise along columns only.
template <class Format, class Input, bool Rows>
__device__ void quantize_columns(const ColumnsArgs& args) {
  using Tile = ColumnsTile<Format, Input>;
  __shared__ typename Tile::Memory memory;
  const QuantizeArgs& in = args.rows;
  const int shift = in.tiles.column_shift;
  const std::int64_t first_row = static_cast<std::int64_t>(blockIdx.x >> shift) * Tile::rows;
  const std::int64_t first_col =
      ((static_cast<std::int64_t>(blockIdx.y) << shift) + (blockIdx.x & ((1u << shift) - 1))) *
      Tile::cols;
  if (first_col >= (args.tiled ? ceil_div(in.cols, 128) * 128 : in.cols)) return;
  const std::int64_t rows_left = in.rows - first_row, cols_left = in.cols - first_col;
  const Tile tile{args,
                  Format::prepare(in.global_scale),
                  memory,
                  first_row,
                  first_col,
                  static_cast<int>(rows_left < Tile::rows ? rows_left : Tile::rows),
                  static_cast<int>(cols_left < Tile::cols ? cols_left : Tile::cols)};
  tile.load();
  __syncthreads();
#pragma unroll 1
  for (int step = 0; step < Tile::steps; ++step) {
    if constexpr (Rows) tile.quantize_rows(step);
    tile.quantize_columns(step);
  }
  __syncthreads();
  const unsigned thread = threadIdx.x;
  static_assert(threads_per_block >= Tile::rows + Tile::cols);
  if (thread < Tile::cols)
    tile.template store_scales<Tile::cols, Tile::column_scales>(
        memory.columns_scales, thread, first_col, tile.cols_left, first_row / Format::block,
        in.rows / Format::block, args.scales);
  else if (Rows && thread < Tile::cols + Tile::rows)
    tile.template store_scales<Tile::rows, Tile::row_scales>(
        memory.rows_scales, thread - Tile::cols, first_row, tile.rows_left,
        first_col / Format::block, in.cols / Format::block, in.scales);
}

}  // namespace microscale::cuda
