// append_kv_shared_...: what the other kernels do not serve: tokens of any type, d and RoPE, and
// every scale rule. Values become FP32; those of K may go through RoPE, lose the mean and be
// transformed (formats/rope.hpp, formats/producers.hpp). Rows pass through shared memory, where an
// element finds its partner in RoPE, and a block of a rule that searches all scales its elements.
#pragma once

#include <cstdint>

#include "cuda/append_kv/token_run.cuh"
#include "cuda/block/general_context.cuh"
#include "formats/producers.hpp"
#include "formats/rope.hpp"

namespace microscale::cuda::append {

inline constexpr int run_elements = run_chunks * chunk_elements;

/// What is done to the rows of a run. `rows`: this warp's run_elements of shared memory.
template <class Run>
class Transform {
 public:
  __device__ Transform(const Args& args, const Run& run, float* rows)
      : args_(args), run_(run), rows_(rows) {}

  __device__ void operator()(typename Run::Chunk (&w)[4]) const {
    if (args_.cos) rotate_pairs(w);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (args_.mean && run_.inside(run_.chunk(j))) {
        const float* const mean = args_.mean + run_.head() * args_.d + run_.column(run_.chunk(j));
#pragma unroll
        for (int i = 0; i < chunk_elements; ++i)
          w[j][i] = __float_as_uint(__fsub_rn(__uint_as_float(w[j][i]), mean[i]));
      }
      if (args_.hadamard != 0) transform_sixteens(w[j]);
      make_nans_canonical(w[j]);
    }
  }

 private:
  __device__ void rotate_pairs(typename Run::Chunk (&w)[4]) const {
#pragma unroll
    for (int j = 0; j < 4; ++j)
#pragma unroll
      for (int i = 0; i < chunk_elements; ++i)
        rows_[run_.chunk(j) * chunk_elements + i] = __uint_as_float(w[j][i]);
    __syncwarp();
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int n = run_.chunk(j), position = run_.position(n);
      const bool there = run_.of_chunk(run_.target().codes, n) != nullptr;
      if (run_.column(n) >= args_.rope_width || !run_.inside(n) || !there) continue;
      if (args_.rope_chunks)
        rotate_chunk(n, position, w[j]);
      else
        rotate_elements(n, position, w[j]);
    }
    __syncwarp();
  }

  /// A chunk whose partner is a chunk.
  __device__ void rotate_chunk(int n, int position, typename Run::Chunk& w) const {
    const int distance = args_.rope_width / 2, column = run_.column(n);
    const bool second = column >= distance;
    const float* const partner = rows_ + n * chunk_elements + (second ? -distance : distance);
    const std::int64_t angle =
        static_cast<std::int64_t>(position) * distance + (second ? column - distance : column);
#pragma unroll
    for (int i = 0; i < chunk_elements; i += 4) {
      const float4 other = *reinterpret_cast<const float4*>(partner + i),
                   cos = *reinterpret_cast<const float4*>(args_.cos + angle + i),
                   sin = *reinterpret_cast<const float4*>(args_.sin + angle + i);
      w[i] = turned(second, w[i], other.x, cos.x, sin.x);
      w[i + 1] = turned(second, w[i + 1], other.y, cos.y, sin.y);
      w[i + 2] = turned(second, w[i + 2], other.z, cos.z, sin.z);
      w[i + 3] = turned(second, w[i + 3], other.w, cos.w, sin.w);
    }
  }

  __device__ void rotate_elements(int n, int position, typename Run::Chunk& w) const {
    const bool interleaved = args_.rope_interleaved != 0;
    const int pairs = args_.rope_width / 2,
              distance = static_cast<int>(rope_distance(args_.rope_width, interleaved));
#pragma unroll
    for (int i = 0; i < chunk_elements; ++i) {
      const int element = run_.column(n) + i;
      if (element >= args_.rope_width) continue;
      const bool second = interleaved ? element & 1 : element >= distance;
      const int pair = interleaved ? element / 2 : second ? element - distance : element;
      const std::int64_t angle = static_cast<std::int64_t>(position) * pairs + pair;
      const float other = rows_[n * chunk_elements + i + (second ? -distance : distance)];
      w[i] = turned(second, w[i], other, args_.cos[angle], args_.sin[angle]);
    }
  }

  /// An element that is the first or the second of its pair.
  __device__ static std::uint32_t turned(bool second, std::uint32_t own, float other, float cos,
                                         float sin) {
    const float x = __uint_as_float(own);
    return __float_as_uint(second ? rotate(other, x, cos, sin).second
                                  : rotate(x, other, cos, sin).first);
  }

  const Args& args_;
  const Run& run_;
  float* const rows_;
};

/// Four chunks under way at once, then as FP32.
template <class Input>
__device__ void load_as_f32(const char* const (&source)[4],
                            std::uint32_t (&w)[4][InputF32::words]) {
  std::uint32_t raw[4][Input::words];
#pragma unroll
  for (int j = 0; j < 4; ++j) Input::load(source[j], raw[j]);
#pragma unroll
  for (int j = 0; j < 4; ++j) to_f32<Input>(raw[j], w[j]);
}

/// Every run of a warp, its values ready: `use(run, w)`.
template <class Run, class Use>
__device__ void each_run(const Args& args, const Side& side, float* rows, Use&& use) {
  const auto type = static_cast<DType>(side.type);
  const int element_bytes = type == DType::f32 ? 4 : 2;
  Run run(args, side);
  const char* from = nullptr;
#pragma unroll 1
  for (int turn = 0; turn < args.turns; ++turn) {
    if (run.begins_lanes()) {
      from = static_cast<const char*>(side.input) +
             source_of(args, side, run.token(), run.head()) * element_bytes;
      run.find_target();
    }
    typename Run::Chunk w[4];
    const char* source[4];
#pragma unroll
    for (int j = 0; j < 4; ++j)
      source[j] = run.of_chunk(from, run.chunk(j)) + run.column(run.chunk(j)) * element_bytes;
    if (type == DType::f32)
      load_as_f32<InputF32>(source, w);
    else if (type == DType::f16)
      load_as_f32<InputF16>(source, w);
    else
      load_as_f32<InputBf16>(source, w);
    if (side.transformed) Transform<Run>(args, run, rows)(w);
    run.copy(w);
    use(run, w);
    run.next();
  }
}

template <class Format>
__device__ void shared(const Args& args) {
  using Run = TokenRun<Format, InputF32, Lanes::any>;
  __shared__ __align__(16) float rows[warps][run_elements];
  const Side& side = args.sides[blockIdx.z];
  const typename Format::Shared shared = Format::prepare(side.rules.global_scale);
  each_run<Run>(args, side, rows[threadIdx.x / 32],
                [&](const Run& run, const typename Run::Chunk(&w)[4]) { run.quantize(shared, w); });
}

/// Any scale rule, a block a lane.
template <class Codec, int Count, bool E8M0>
__device__ void shared_general(const Args& args) {
  struct Format {
    using Shared = int;
  };
  using Run = TokenRun<Format, InputF32, Lanes::any>;
  constexpr int code_bits = Codec::mantissa_bits == 1 ? 4 : 8, chunks = Count / chunk_elements;
  __shared__ __align__(16) float all_rows[warps][run_elements];
  float* const rows = all_rows[threadIdx.x / 32];
  const Side& side = args.sides[blockIdx.z];
  const BlockContext context = general_context<E8M0>(side.rules);
  each_run<Run>(args, side, rows, [&](const Run& run, const typename Run::Chunk(&w)[4]) {
#pragma unroll
    for (int j = 0; j < 4; ++j)
#pragma unroll
      for (int i = 0; i < chunk_elements; ++i)
        rows[run.chunk(j) * chunk_elements + i] = __uint_as_float(w[j][i]);
    __syncwarp();
#pragma unroll 1
    for (int block = 0; block < run_chunks / chunks; block += 32) {
      const int n = (block + static_cast<int>(threadIdx.x & 31)) * chunks;
      std::uint8_t *const to = run.of_chunk(run.target().codes, n), *const scales = run.of_chunk(
                                                                        run.target().scales, n);
      if (!run.inside(n) || !to) continue;
      std::uint8_t codes[Count];
      scales[run.column(n) / Count] = quantize_block<Codec, Count, E8M0>(
          rows + n * chunk_elements, nullptr, context, [](int) { return std::uint64_t{0}; }, codes);
      for (int i = 0; i < Count; i += 8 / code_bits)
        to[(run.column(n) + i) * code_bits / 8] =
            code_bits == 8 ? codes[i]
                           : static_cast<std::uint8_t>(codes[i] | codes[(i + 1) % Count] << 4);
    }
    __syncwarp();
  });
}

}  // namespace microscale::cuda::append
