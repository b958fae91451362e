// Four chunks of eight elements a lane, dense to block-scaled: what every kernel that has them in
// registers shares.
//
// A lane loads its four chunks before it uses any; finds the scales together with its neighbours
// (row_exchange.cuh); encodes; stores. The chunks lie one below the other, or, where rows are long,
// 256 elements apart in one row: a warp then reads 2 KiB of BF16 in one piece, and its scale bytes,
// row-major, are a whole sector.
#pragma once

#include <cstdint>

#include "cuda/block/block_scale.cuh"
#include "cuda/block/encode.cuh"
#include "cuda/block/quantize_args.hpp"
#include "cuda/block/rounding_errors.cuh"
#include "cuda/block/row_exchange.cuh"
#include "cuda/ptx/memory.cuh"

namespace microscale::cuda {

/// This thread's place in a tile of rows.
struct RowCursor {
  const char* source;
  std::uint8_t* target;
  std::uint8_t* scales;  // of the word's chunk and first block; where bytes are written, of its own
  // For tiles at the matrix' edges, rows or (runs) columns from this thread's first on:
  int left;        // 0 if the first is outside
  int words_left;  // above 0: this lane stores a word
};

/// Runs: a lane's chunks lie in one row; otherwise `rows_apart` rows from one to the next.
template <class Format, class Input, bool Tiled, bool Runs>
struct LaneChunks {
  static constexpr int lanes = Format::block / chunk_elements;
  using Exchange = RowExchange<lanes>;
  using Owned = std::uint32_t[Exchange::owned];
  using Chunk = std::uint32_t[Input::words];
  // Runs, 128x4: scale words of eight rows, for each 128x4 tile its 32 bytes.
  static constexpr int gathered_words = run_elements / Format::block / 4 * 8;

  const QuantizeArgs& args;
  typename Format::Shared shared;
  int rows_apart;
  std::int64_t blocks;      // scale bytes of a row
  std::uint32_t* gathered;  // Runs, 128x4: where this lane's scale word goes

  // From a chunk of this lane to the next: rows or columns; bytes.
  __device__ int apart() const { return Runs ? run_apart : rows_apart; }
  __device__ std::int64_t step() const {
    return Runs ? run_apart * Input::element_bytes
                : args.row_stride * (rows_apart * Input::element_bytes);
  }
  __device__ std::int64_t code_step() const {
    return Runs ? run_apart / 8 * Format::code_bits : args.code_stride * rows_apart;
  }
  __device__ std::int64_t scale_step() const {
    return Runs ? run_apart / Format::block : blocks * rows_apart;
  }

  __device__ bool inside(const RowCursor& at, int chunk) const { return chunk * apart() < at.left; }

  /// Not Whole: what is outside reads `somewhere`, a chunk that exists.
  template <bool Whole>
  __device__ void load(const RowCursor& at, const char* somewhere, Chunk (&w)[4]) const {
    if constexpr (Whole) {
#pragma unroll
      for (int j = 0; j < 4; ++j) Input::load(at.source + j * step(), w[j]);
    } else {
      const char* source = at.left > 0 ? at.source : somewhere;
#pragma unroll
      for (int j = 0; j < 4; ++j) Input::load(inside(at, j) ? source + j * step() : source, w[j]);
    }
  }

  /// Returns whether there is a NaN that the scales ignore.
  __device__ bool find_maxima(const Chunk (&w)[4], Owned& own) const {
    if constexpr (Input::element_bytes == 2) {
      if (args.nan_propagates) {
        std::uint32_t rows[2];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const std::uint32_t first = Input::amax_pair(w[2 * i]),
                              second = Input::amax_pair(w[2 * i + 1]);
          rows[i] = Input::Packed::max_abs(__byte_perm(first, second, 0x5410),
                                           __byte_perm(first, second, 0x7632));
        }
        Exchange::template maxima_packed<typename Input::Packed>(rows, own);
        return false;
      }
    }
    std::uint32_t amax[4], largest = 0;
#pragma unroll
    for (int j = 0; j < 4; ++j) largest = max(largest, amax[j] = Input::amax_bits(w[j]));
    const bool with_nan = !args.nan_propagates && largest > infinity_bits;
    if (with_nan) {
#pragma unroll
      for (int j = 0; j < 4; ++j) amax[j] = amax_without_nan<Input>(w[j]);
    }
    Exchange::maxima(amax, own);
    return with_nan;
  }

  template <bool Whole>
  __device__ void store_scales(const RowCursor& at, Owned& scale) const {
    if constexpr (!Whole) {  // padding is zero
#pragma unroll
      for (int i = 0; i < Exchange::owned; ++i)
        if (!inside(at, Exchange::owned_row(i))) scale[i] = 0;
    }
    if (Tiled || args.tiles.scale_words) {
      const std::uint32_t word = Exchange::word(scale);
      if constexpr (Tiled && Runs) {
        if (Exchange::has_word()) *gathered = word;
      } else if (Whole ? Exchange::has_word() : at.words_left > 0) {
        ptx::st_global_b32(at.scales, word);
      }
    } else if (Exchange::writes()) {
#pragma unroll
      for (int i = 0; i < Exchange::owned; ++i)
        if (Whole || inside(at, Exchange::owned_row(i)))
          at.scales[Exchange::owned_row(i) * scale_step()] = static_cast<std::uint8_t>(scale[i]);
    }
  }

  template <bool Whole>
  __device__ void run(const RowCursor& at, const Chunk (&w)[4]) const {
    std::uint32_t told[4];
    Owned own, scale;
    const bool with_nan = find_maxima(w, own);
    Format::plan(args, shared, own, scale);
#pragma unroll
    for (int j = 0; j < 4; ++j) told[j] = Exchange::told(own, j);
    if constexpr (Format::searches) Format::template search<Input>(args, shared, w, told, scale);
    store_scales<Whole>(at, scale);

    typename Format::Codes codes[4];
    if (!with_nan && Format::template are_plain<Input>(shared, told)) {
#pragma unroll
      for (int j = 0; j < 4; ++j) codes[j] = Format::template encode<Input>(w[j], told[j]);
    } else {  // one special block takes its lanes down the slow path
#pragma unroll
      for (int j = 0; j < 4; ++j) codes[j] = Format::template encode_any<Input>(w[j], told[j]);
    }
    if (args.zero_is_positive) {
#pragma unroll
      for (int j = 0; j < 4; ++j) codes[j] = Format::positive_zeros(codes[j]);
    }
#pragma unroll
    for (int j = 0; j < 4; ++j)
      if (Whole || inside(at, j)) Format::store(at.target + j * code_step(), codes[j]);
  }
};

}  // namespace microscale::cuda
