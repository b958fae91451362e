// What a fused kernel computes in front of the quantizer, for the 32 elements of a lane: loads, then the
// arithmetic of formats/producers.hpp.
#pragma once

#include <cstdint>

#include "cuda/tile/lane_tile.cuh"
#include "formats/producers.hpp"

namespace microscale::cuda {

/// clamp_gate of a word of a chunk: one FP32 or two 16-bit elements.
template <class Input>
__device__ std::uint32_t clamp_gates(std::uint32_t w) {
  if constexpr (Input::element_bytes == 4)
    return __float_as_uint(ptx::max_nan_f32(__uint_as_float(w), lowest_gate));
  else
    return Input::Packed::max_nan(w, Input::is_bf16 ? 0xC22CC22Cu : 0xD160D160u);  // -43, -43
}

/// Addresses of a lane's elements in the operands, and from a row to the next it visits.
template <int Operands>
struct LaneSources {
  const char* at[Operands];
  std::int64_t step[Operands];
  __device__ void advance() {
#pragma unroll
    for (int i = 0; i < Operands; ++i) at[i] += step[i];
  }
};

template <class Input>
struct SiluMul {
  static constexpr int operands = 2;
  static constexpr int element_bytes = Input::element_bytes;
  LaneRaw<Input> gate, up;

  __device__ void load(const LaneSources<2>& sources, int valid) {
    gate.load(sources.at[0], valid);
    up.load(sources.at[1], valid);
  }

  __device__ void produce(const FusedArgs&, int, LaneValues& v) {
#pragma unroll
    for (int k = 0; k < lane_chunks; ++k) {
#pragma unroll
      for (int i = 0; i < Input::words; ++i) gate.w[k][i] = clamp_gates<Input>(gate.w[k][i]);
#pragma unroll
      for (int i = 0; i < chunk_elements; i += 2) {
        const SiluPair pair =
            silu_mul(Input::value(gate.w[k], i), Input::value(gate.w[k], i + 1),
                     Input::value(up.w[k], i), Input::value(up.w[k], i + 1));
        v[k][i] = __float_as_uint(pair.first);
        v[k][i + 1] = __float_as_uint(pair.second);
      }
    }
  }
};

template <class Input>
struct Hadamard {
  static constexpr int operands = 1;
  static constexpr int element_bytes = Input::element_bytes;
  LaneRaw<Input> raw;

  __device__ void load(const LaneSources<1>& sources, int valid) { raw.load(sources.at[0], valid); }

  __device__ void produce(const FusedArgs& args, int group, LaneValues& v) {
    float x[lane_elements];
#pragma unroll
    for (int i = 0; i < lane_elements; ++i) x[i] = Input::value(raw.w[i / 8], i % 8);
    if ((args.negated[0] | args.negated[1] | args.negated[2] | args.negated[3]) != 0) {
      std::uint32_t bits = args.negated[group & (args.order / lane_elements - 1) & 3];
      if (args.order == 16) bits = args.negated[0] * 0x10001u;
#pragma unroll
      for (int i = 0; i < lane_elements; ++i)
        x[i] = __uint_as_float(__float_as_uint(x[i]) ^ ((bits << (31 - i)) & 0x80000000u));
    }
    const float scale = hadamard_scale(args.order);
#pragma unroll
    for (int i = 0; i < lane_elements; i += 2) hadamard_first(x[i], x[i + 1], scale);
#pragma unroll
    for (int distance = 2; distance < 16; distance *= 2) steps(x, distance);
    if (args.order >= 32) steps(x, 16);
    if (args.order >= 64) across(x, 1);
    if (args.order == 128) across(x, 2);
#pragma unroll
    for (int i = 0; i < lane_elements; ++i) v[i / 8][i % 8] = __float_as_uint(x[i]);
  }

 private:
  __device__ static void steps(float (&x)[lane_elements], int distance) {
#pragma unroll
    for (int i = 0; i < lane_elements; ++i)
      if ((i & distance) == 0) hadamard_step(x[i], x[i + distance]);
  }

  // The lane `lanes` further holds the other operand of every element.
  __device__ static void across(float (&x)[lane_elements], int lanes) {
    const float sign = threadIdx.x & static_cast<unsigned>(lanes) ? -1.0f : 1.0f;
#pragma unroll
    for (int i = 0; i < lane_elements; ++i)
      x[i] = __fmaf_rn(sign, x[i], __shfl_xor_sync(0xFFFFFFFFu, x[i], lanes));
  }
};

/// A lane goes down its columns: 1024 elements of a row to a warp, or several rows of a narrow matrix
/// (lane_launch of geometry.hpp).
template <class Producer, class Format>
__device__ void fused_lanes(const FusedArgs& args) {
  const unsigned lane = threadIdx.x & 31u, row_threads = static_cast<unsigned>(args.row_threads);
  const unsigned shift = static_cast<unsigned>(__ffs(args.row_threads)) - 1;
  const unsigned warp = blockIdx.x * (threads_per_block / 32) + threadIdx.x / 32;
  const unsigned columns = static_cast<unsigned>(args.column_pieces);
  const std::int64_t slot = warp / columns;
  const int group = static_cast<int>(((warp % columns) << shift) + (lane & (row_threads - 1)));
  const LaneTile<Format> tile(args, make_scale_table<Format>(args), group);
  const std::int64_t rows = args.quantize.rows;
  const std::int64_t end = args.tiled ? ceil_div(rows, 128) * 128 : rows;
  std::int64_t row = (slot << (5 - shift)) + (lane >> shift);
  const std::int64_t step = args.row_step;
  if (slot << (5 - shift) >= step) return;  // a warp beyond the last slot

  LaneSources<Producer::operands> sources;
#pragma unroll
  for (int i = 0; i < Producer::operands; ++i) {
    const std::int64_t stride = i == 0 ? args.quantize.row_stride : args.second_stride;
    sources.at[i] = lane_source(i == 0 ? args.quantize.input : args.second, row, stride, tile.column,
                                static_cast<std::int64_t>(group) * lane_elements,
                                Producer::element_bytes, row < rows);
    sources.step[i] = tile.column.valid != 0 ? step * stride * Producer::element_bytes : 0;
  }
  std::uint8_t* codes = tile.codes_of(row);
  std::uint8_t* scales = tile.scales_of(row);
  const std::int64_t code_step = step * args.quantize.code_stride, scale_step = tile.scale_step(step);
  for (std::int64_t first = slot << (5 - shift); first < end; first += step, row += step) {
    const bool exists = row < rows;
    if (!exists) {
#pragma unroll
      for (int i = 0; i < Producer::operands; ++i)
        sources.at[i] = static_cast<const char*>(i == 0 ? args.quantize.input : args.second);
    }
    Producer producer;
    producer.load(sources, tile.column.valid);
    LaneValues v;
    producer.produce(args, group, v);
    tile.run(v, exists, codes, scales);
    sources.advance();
    codes += code_step;
    scales += scale_step;
  }
}

}  // namespace microscale::cuda
