// What all kernels that append tokens share: a run of rows, four chunks of eight elements a lane,
// how they are quantized, and where their codes, scales and copies go.
#pragma once

#include <cstdint>

#include "cuda/append_kv/args.hpp"
#include "cuda/append_kv/tokens.cuh"
#include "cuda/block/input_chunk.cuh"
#include "cuda/block/mx_format.cuh"
#include "cuda/block/nvfp4_format.cuh"
#include "cuda/block/row_exchange.cuh"
#include "cuda/block/lane_chunks.cuh"
#include "cuda/ptx/memory.cuh"
#include "formats/half.hpp"
#include "formats/producers.hpp"

namespace microscale::cuda::append {

/// E4M3 of value * (1 / global scale), without block scales.
struct Fp8Format {
  static constexpr int block = 0;
  static constexpr int code_bits = 8;
  struct Shared {
    float inverse;
  };
  __device__ static Shared prepare(const float* global_scale) { return {__frcp_rn(*global_scale)}; }
};

/// Which chunks of a run's rows a lane has. Chunks are counted through them, 32 j + lane.
enum class Lanes {
  any,     ///< row by row, of every d
  whole,   ///< the same, has_whole_rows() of d: a lane's four lie in one column
  halves,  ///< has_halves() of d: j even in the first half of a row, j odd as far into its
           ///< second, where its partners of RoPE are
};

/// The tokens of a warp, one a lane, and the run of them that is being appended. Source: the type
/// in memory; Input: when they are quantized.
template <class Format, class Input, Lanes Lanes, class Source = Input>
class TokenRun {
  static constexpr bool Whole = Lanes != Lanes::any;
  static constexpr bool Halves = Lanes == Lanes::halves;

 public:
  using Chunk = std::uint32_t[Input::words];
  using SourceChunk = std::uint32_t[Source::words];
  using Shared = typename Format::Shared;

  __device__ TokenRun(const Args& args, const Side& side)
      : args_(args), side_(side), lane_(static_cast<int>(threadIdx.x & 31)) {
    rows_ = run_rows(args.d);
    row_chunks_ = args.d / chunk_elements;
    // From one lane, so that the compiler knows that a warp never parts.
    const unsigned warp_here = __shfl_sync(whole_warp, threadIdx.x / 32, 0),
                   warp = blockIdx.x * warps + warp_here,
                   heads = static_cast<unsigned>(args.kv_heads);
    head_ = static_cast<int>(warp % heads);
    first_ = static_cast<int>(warp / heads) * (args.turns * rows_);
    if constexpr (Whole) {
      own_row_ = lane_ >> lanes_shift();
      own_column_ = (lane_ & ((Halves ? row_chunks_ / 2 : row_chunks_) - 1)) * chunk_elements;
      source_ = static_cast<const char*>(side.input) +
                (head_ * side.head + own_column_) * Source::element_bytes +
                static_cast<std::int64_t>(own_row_) * side.token_bytes;
    }
  }
  __device__ int head() const { return head_; }
  /// Of this lane; one that there is not, if no run has it.
  __device__ int token() const {
    return lane_ < args_.runs * rows_ ? first_ + lane_ : args_.all_tokens;
  }
  /// Of the tokens that have a lane next: where they go, and whether they lie behind the first of
  /// their run.
  __device__ void find_target() {
    target_ = target_of(args_, side_, token(), head_);
    if constexpr (Whole) {
      const int before = lane_ & (rows_ - 1);  // of the run
      const std::uint8_t *const codes = of_lane(target_.codes, lane_ - before),
                                *const scales = of_lane(target_.scales, lane_ - before);
      in_line_ =
          __ballot_sync(whole_warp, codes && target_.codes == codes + before * side_.codes.token &&
                                        target_.scales == scales + before * side_.scales.token);
    }
  }
  /// Goes on to the next run.
  __device__ void next() {
    run_ += rows_;
    if (run_ < args_.runs * rows_) return;
    run_ = 0;
    first_ += args_.runs * rows_;
  }
  /// Whether find_target() is due.
  __device__ bool begins_lanes() const { return run_ == 0; }

  __device__ int chunk(int j) const { return 32 * j + lane_; }
  /// In the run; one more than there are, of chunks behind the last.
  __device__ int row(int chunk) const {
    if constexpr (Whole) return own_row_ + (steps(chunk >> 5) << (5 - lanes_shift()));
    return chunk / row_chunks_;
  }
  __device__ int column(int chunk) const {
    if constexpr (Whole) return own_column_ + halves(chunk >> 5) * (args_.d / 2);
    return chunk % row_chunks_ * chunk_elements;
  }
  __device__ bool inside(int chunk) const { return Whole || row(chunk) < rows_; }

  /// What another lane found; the warp calls it together.
  template <class T>
  __device__ static T* of_lane(T* found, int lane) {
    return reinterpret_cast<T*>(
        __shfl_sync(whole_warp, reinterpret_cast<std::uintptr_t>(found), lane & 31));
  }
  /// Of what each lane found for its token, that of a chunk's.
  template <class T>
  __device__ T* of_chunk(T* found, int chunk) const {
    return of_lane(found, run_ + row(chunk));
  }
  __device__ int position(int chunk) const {
    return __shfl_sync(whole_warp, target_.position, (run_ + row(chunk)) & 31);
  }
  __device__ const Target& target() const { return target_; }

  __device__ void load(SourceChunk (&w)[4]) const {
    const int first = first_ + run_;
    const char* const from =
        source_ + static_cast<std::uint64_t>(static_cast<unsigned>(first)) * side_.token_bytes;
    const std::uint64_t step = static_cast<std::uint64_t>(32u >> lanes_shift()) * side_.token_bytes;
    const int half = args_.d / 2 * Source::element_bytes;
    if (first + rows_ <= args_.all_tokens) {
#pragma unroll
      for (int j = 0; j < 4; ++j) Source::load(from + steps(j) * step + halves(j) * half, w[j]);
    } else {  // what is outside reads something inside
#pragma unroll
      for (int j = 0; j < 4; ++j)
        Source::load(first + row(chunk(j)) < args_.all_tokens
                         ? from + steps(j) * step + halves(j) * half
                         : static_cast<const char*>(side_.input),
                     w[j]);
    }
  }

  /// Codes and scales of four chunks; all lanes of the warp call it.
  __device__ void quantize(const Shared& shared, const Chunk (&w)[4]) const {
    if constexpr (Format::block == 0) {
      uint2 codes[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) codes[j] = encode_fp8<E4M3, Input>(w[j], shared.inverse);
      store_all(codes);
    } else {
      using Tile = LaneChunks<Format, Input, false, false>;
      using Exchange = typename Tile::Exchange;
      const Tile tile{side_.rules, shared, 0, 0, nullptr};
      std::uint32_t told[4];
      typename Tile::Owned own, scale;
      const bool with_nan = tile.find_maxima(w, own);
      Format::plan(side_.rules, shared, own, scale);
#pragma unroll
      for (int j = 0; j < 4; ++j) told[j] = Exchange::told(own, j);
      if constexpr (Format::searches && Format::block == 16)
        Format::template search<Input>(side_.rules, shared, w, told, scale, first_alone());
      else if constexpr (Format::searches)
        Format::template search<Input>(side_.rules, shared, w, told, scale);
      store_scales<Exchange>(scale);
      typename Format::Codes codes[4];
      if (!with_nan && Format::template are_plain<Input>(shared, told)) {
#pragma unroll
        for (int j = 0; j < 4; ++j) codes[j] = Format::template encode<Input>(w[j], told[j]);
      } else {
#pragma unroll
        for (int j = 0; j < 4; ++j) codes[j] = Format::template encode_any<Input>(w[j], told[j]);
      }
      if (side_.rules.zero_is_positive) {
#pragma unroll
        for (int j = 0; j < 4; ++j) codes[j] = Format::positive_zeros(codes[j]);
      }
      store_all(codes);
    }
  }

  /// The same values in BF16, of the rows that are kept so.
  __device__ void copy(const Chunk (&w)[4]) const {
    if (args_.first_count + args_.recent_count == 0) return;
    Copies copies;
    if (target_.codes) copies = copies_of(args_, side_, token(), head_);
    if (!__any_sync(whole_warp, copies.first != nullptr || copies.recent != nullptr)) return;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      std::uint32_t pairs[4];
#pragma unroll
      for (int i = 0; i < 4; ++i)
        pairs[i] = ptx::cvt_rn_bf16x2_f32(Input::value(w[j], 2 * i), Input::value(w[j], 2 * i + 1));
      const int n = chunk(j);
      std::uint16_t *const first = of_chunk(copies.first, n), *const recent =
                                                                  of_chunk(copies.recent, n);
      const uint4 bits = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
      if (inside(n) && first) ptx::st_global_v4(first + column(n), bits);
      if (inside(n) && recent) ptx::st_global_v4(recent + column(n), bits);
    }
  }

 private:
  /// log2 of the lanes side by side in a row.
  __device__ int lanes_shift() const { return Halves ? args_.row_shift - 1 : args_.row_shift; }
  /// Of a lane's chunk j: rows behind the first, in steps of what 32 lanes have; which half.
  __device__ static int steps(int j) { return Halves ? j >> 1 : j; }
  __device__ static int halves(int j) { return Halves ? j & 1 : 0; }

  /// Whether of a lane's chunks only the first holds a token: few tokens, and a search of scales is
  /// what they wait for.
  __device__ bool first_alone() const {
    return Lanes == Lanes::whole && first_ + run_ + (32 >> lanes_shift()) >= args_.all_tokens;
  }

  /// Whether all rows of the run go one behind the other.
  __device__ bool in_line() const {
    const std::uint32_t all = 0xFFFFFFFFu >> (32 - rows_);
    return Whole && (in_line_ >> run_ & all) == all;
  }

  template <class Codes>
  __device__ void store_all(const Codes (&codes)[4]) const {
    if (in_line()) {
      std::uint8_t* const to = of_lane(target_.codes, run_) + own_row_ * side_.codes.token +
                               own_column_ * Format::code_bits / 8;
      const std::int64_t step = (32 >> lanes_shift()) * side_.codes.token;
      const int half = args_.d / 2 * Format::code_bits / 8;
#pragma unroll
      for (int j = 0; j < 4; ++j) store(to + steps(j) * step + halves(j) * half, codes[j]);
      return;
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int n = chunk(j);
      std::uint8_t* const to = of_chunk(target_.codes, n);
      if (inside(n) && to) store(to + column(n) * Format::code_bits / 8, codes[j]);
    }
  }
  __device__ static void store(std::uint8_t* to, std::uint32_t codes) {
    ptx::st_global_b32(to, codes);
  }
  __device__ static void store(std::uint8_t* to, uint2 codes) {
    ptx::st_global_v2(to, codes.x, codes.y);
  }

  template <class Exchange>
  __device__ void store_scales(const std::uint32_t (&scale)[Exchange::owned]) const {
    if (side_.scale_words) {  // rows of whole words: their four blocks are neighbouring lanes
      const std::uint32_t word = Exchange::word(scale);
      constexpr int word_lanes = 4 * Format::block / chunk_elements;
      const int n = chunk(Exchange::word_row()), first = n & ~(word_lanes - 1);  // in one row
      const int own_row = Halves ? row(n) : Whole ? first >> args_.row_shift : first / row_chunks_;
      const int block = Halves ? column(n) / Format::block & ~3
                               : (first - own_row * row_chunks_) * chunk_elements / Format::block;
      std::uint8_t* const to = of_lane(target_.scales, run_ + own_row);
      if (Exchange::has_word() && own_row < rows_ && to) ptx::st_global_b32(to + block, word);
      return;
    }
#pragma unroll
    for (int i = 0; i < Exchange::owned; ++i) {
      const int n = chunk(Exchange::owned_row(i));
      std::uint8_t* const to = of_chunk(target_.scales, n);
      if (Exchange::writes() && inside(n) && to)
        to[column(n) / Format::block] = static_cast<std::uint8_t>(scale[i]);
    }
  }

  const Args& args_;
  const Side& side_;
  const int lane_;
  int head_, first_, rows_, row_chunks_;
  int own_row_ = 0, own_column_ = 0;
  int run_ = 0;                   // the first lane of the run
  std::uint32_t in_line_ = 0;     // tokens of lanes: behind the first of their run
  const char* source_ = nullptr;  // of this lane in token 0
  Target target_;
};

// What is done to a chunk of keys in FP32 before it is quantized.

/// The orthonormal Hadamard transform of runs of 16 elements: this lane's chunk and its
/// neighbour's.
__device__ inline void transform_sixteens(std::uint32_t (&w)[InputF32::words]) {
  float x[chunk_elements];
#pragma unroll
  for (int i = 0; i < chunk_elements; ++i) x[i] = __uint_as_float(w[i]);
#pragma unroll
  for (int i = 0; i < chunk_elements; i += 2) hadamard_first(x[i], x[i + 1], hadamard_scale(16));
#pragma unroll
  for (int distance = 2; distance < chunk_elements; distance *= 2)
#pragma unroll
    for (int i = 0; i < chunk_elements; ++i)
      if ((i & distance) == 0) hadamard_step(x[i], x[i + distance]);
  const float sign = threadIdx.x & 1 ? -1.0f : 1.0f;
#pragma unroll
  for (int i = 0; i < chunk_elements; ++i)
    w[i] = __float_as_uint(__fmaf_rn(sign, x[i], __shfl_xor_sync(whole_warp, x[i], 1)));
}

/// A NaN's sign is not defined by IEEE arithmetic; every backend writes the same NaN.
__device__ inline void make_nans_canonical(std::uint32_t (&w)[InputF32::words]) {
#pragma unroll
  for (int i = 0; i < chunk_elements; ++i) {
    const float x = __uint_as_float(w[i]);
    w[i] = __float_as_uint(x == x ? x : canonical_nan());
  }
}

template <class Input>
__device__ void to_f32(const std::uint32_t (&raw)[Input::words],
                       std::uint32_t (&w)[InputF32::words]) {
#pragma unroll
  for (int i = 0; i < chunk_elements; ++i) w[i] = __float_as_uint(Input::value(raw, i));
}

}  // namespace microscale::cuda::append
