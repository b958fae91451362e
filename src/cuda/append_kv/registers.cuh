// append_kv_registers_...: tokens of K or V as they lie in memory, quantized from registers.
#pragma once

#include <cstdint>

#include "cuda/append_kv/args.hpp"
#include "cuda/append_kv/token_run.cuh"
#include "formats/rope.hpp"

namespace microscale::cuda::append {

/// For d that has_whole_rows() says, and tokens that lie one stride apart in all of the input.
template <class Format, class Input>
__device__ void registers(const Args& args) {
  const Side& side = args.sides[blockIdx.z];
  using Run = TokenRun<Format, Input, Lanes::whole>;
  Run run(args, side);
  typename Format::Shared shared;
#pragma unroll 1
  for (int turn = 0; turn < args.turns; ++turn) {
    typename Run::Chunk w[4];
    run.load(w);
    if (run.begins_lanes()) run.find_target();  // while the loads are under way
    if (turn == 0) shared = Format::prepare(side.rules.global_scale);
    run.copy(w);
    run.quantize(shared, w);
    run.next();
  }
}

// append_kv_halves_...: tokens of K that are transformed first, in registers alone. A lane has a
// chunk of a row's first half and the one as far into its second, so RoPE turns what the lane has,
// with one load of the tables for both. For d that has_halves() says, and RoPE over the whole row
// or none.

/// Eight FP32 numbers of a table, at a multiple of 16 bytes.
struct RopeTable {
  float4 low, high;
  __device__ explicit RopeTable(const float* from)
      : low(__ldg(reinterpret_cast<const float4*>(from))),
        high(__ldg(reinterpret_cast<const float4*>(from) + 1)) {}
  __device__ float operator[](int i) const {
    const float4& four = i < 4 ? low : high;
    return i % 4 == 0 ? four.x : i % 4 == 1 ? four.y : i % 4 == 2 ? four.z : four.w;
  }
};

/// Chunks 2 p and 2 p + 1 are the halves of one row.
template <class Run>
__device__ void rotate_halves(const Args& args, const Run& run, typename Run::Chunk (&w)[4]) {
#pragma unroll
  for (int p = 0; p < 2; ++p) {
    const int n = run.chunk(2 * p);  // of a token that is left out: position 0
    const std::int64_t angle =
        static_cast<std::int64_t>(run.position(n)) * (args.d / 2) + run.column(n);
    const RopeTable cos(args.cos + angle), sin(args.sin + angle);
#pragma unroll
    for (int i = 0; i < chunk_elements; ++i) {
      const RopePair turned =
          rotate(__uint_as_float(w[2 * p][i]), __uint_as_float(w[2 * p + 1][i]), cos[i], sin[i]);
      w[2 * p][i] = __float_as_uint(turned.first);
      w[2 * p + 1][i] = __float_as_uint(turned.second);
    }
  }
}

template <class Run>
__device__ void subtract_mean(const Args& args, const Run& run, typename Run::Chunk (&w)[4]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float* const mean = args.mean + run.head() * args.d + run.column(run.chunk(half));
    float m[chunk_elements];
#pragma unroll
    for (int i = 0; i < chunk_elements; ++i) m[i] = mean[i];
#pragma unroll
    for (int j = half; j < 4; j += 2)
#pragma unroll
      for (int i = 0; i < chunk_elements; ++i)
        w[j][i] = __float_as_uint(__fsub_rn(__uint_as_float(w[j][i]), m[i]));
  }
}

template <class Format, class Source>
__device__ void halves(const Args& args) {
  using Run = TokenRun<Format, InputF32, Lanes::halves, Source>;
  const Side& side = args.sides[blockIdx.z];
  Run run(args, side);
  typename Format::Shared shared;
  // Else a block with a NaN is the same whatever the NaN's sign.
  const bool shows_nan = !side.rules.nan_propagates || args.first_count + args.recent_count > 0;
#pragma unroll 1
  for (int turn = 0; turn < args.turns; ++turn) {
    typename Run::SourceChunk raw[4];
    typename Run::Chunk w[4];
    run.load(raw);
    if (run.begins_lanes()) run.find_target();  // while the loads are under way
    if (turn == 0) shared = Format::prepare(side.rules.global_scale);
#pragma unroll
    for (int j = 0; j < 4; ++j) to_f32<Source>(raw[j], w[j]);
    if (args.cos && args.rope_positions > 0) rotate_halves(args, run, w);
    if (args.mean) subtract_mean(args, run, w);
    if (args.hadamard != 0) {
#pragma unroll
      for (int j = 0; j < 4; ++j) transform_sixteens(w[j]);
    }
    if (shows_nan) {
#pragma unroll
      for (int j = 0; j < 4; ++j) make_nans_canonical(w[j]);
    }
    run.copy(w);
    run.quantize(shared, w);
    run.next();
  }
}

}  // namespace microscale::cuda::append
