// What a fused kernel computes in front of the quantizer, for the 32 elements of a lane: loads,
// then the arithmetic of formats/producers.hpp.
#pragma once

#include <cstdint>

#include "cuda/quantize/fused_loads.cuh"
#include "cuda/quantize/fused_quantizer.cuh"
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

template <class Input>
struct SiluMul {
  static constexpr int stage_bytes = 2 * loader_bytes<Input>;  // of a warp
  static constexpr int element_bytes = Input::element_bytes;
  LaneLoader<Input, 2> inputs;

  __device__ SiluMul(const FusedArgs& args, const LanePlace& place, char* stage)
      : inputs({{args.quantize.input, args.quantize.row_stride, args.input_step},
                {args.second, args.second_stride, args.second_step}},
               args.quantize.cols, place, stage) {}

  __device__ void produce(LaneValues& v) const {
    LaneElements<Input> gate, up;
    inputs.wait();
    inputs.read(0, gate);
    inputs.read(1, up);
#pragma unroll
    for (int k = 0; k < lane_chunks; ++k) {
#pragma unroll
      for (int i = 0; i < Input::words; ++i) gate.w[k][i] = clamp_gates<Input>(gate.w[k][i]);
#pragma unroll
      for (int i = 0; i < chunk_elements; i += 2) {
        const SiluPair pair = silu_mul(Input::value(gate.w[k], i), Input::value(gate.w[k], i + 1),
                                       Input::value(up.w[k], i), Input::value(up.w[k], i + 1));
        v[k][i] = __float_as_uint(pair.first);
        v[k][i + 1] = __float_as_uint(pair.second);
      }
    }
  }
};

/// Order: of the matrix; 0: what the call says.
template <class Input, int Order>
struct Hadamard {
  static constexpr int stage_bytes = loader_bytes<Input>;
  static constexpr int element_bytes = Input::element_bytes;
  const FusedArgs& args;
  int group;
  LaneLoader<Input, 1> inputs;

  __device__ Hadamard(const FusedArgs& a, const LanePlace& place, char* stage)
      : args(a),
        group(place.group),
        inputs({{a.quantize.input, a.quantize.row_stride, a.input_step}}, a.quantize.cols, place,
               stage) {}

  __device__ void produce(LaneValues& v) const {
    LaneElements<Input> raw;
    inputs.wait();
    inputs.read(0, raw);
    float x[lane_elements];
#pragma unroll
    for (int i = 0; i < lane_elements; ++i) x[i] = Input::value(raw.w[i / 8], i % 8);
    if ((args.negated[0] | args.negated[1] | args.negated[2] | args.negated[3]) != 0) {
      std::uint32_t bits = args.negated[group & (order() / lane_elements - 1) & 3];
      if (order() == 16) bits = args.negated[0] * 0x10001u;
#pragma unroll
      for (int i = 0; i < lane_elements; ++i)
        x[i] = __uint_as_float(__float_as_uint(x[i]) ^ ((bits << (31 - i)) & 0x80000000u));
    }
    const float scale = args.scale;
#pragma unroll
    for (int i = 0; i < lane_elements; i += 2) hadamard_first(x[i], x[i + 1], scale);
#pragma unroll
    for (int distance = 2; distance < 16; distance *= 2) steps(x, distance);
    if (order() >= 32) steps(x, 16);
    if (order() >= 64) across(x, 1);
    if (order() == 128) across(x, 2);
#pragma unroll
    for (int i = 0; i < lane_elements; ++i) v[i / 8][i % 8] = __float_as_uint(x[i]);
  }

 private:
  __device__ int order() const { return Order == 0 ? args.order : Order; }
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

/// A lane goes down its columns: 1024 elements of a row to a warp, or several rows of a narrow
/// matrix (lane_launch of fused_args.hpp). `stage`: Producer::stage_bytes of this warp's own.
template <class Producer, class Format, bool Whole>
__device__ void fused_lanes_of(const FusedArgs& args, char* stage) {
  const unsigned lane = threadIdx.x & 31u;
  const unsigned row_threads = Whole ? 32u : static_cast<unsigned>(args.row_threads);
  const unsigned shift = Whole ? 5u : static_cast<unsigned>(__ffs(args.row_threads)) - 1;
  // From one lane, so that the compiler knows that a warp never parts.
  const unsigned warp_here = __shfl_sync(0xFFFFFFFFu, threadIdx.x / 32, 0);
  const unsigned warp = blockIdx.x * (threads_per_block / 32) + warp_here;
  const unsigned columns = static_cast<unsigned>(args.column_pieces);
  const std::int64_t slot = warp / columns;
  const int group = static_cast<int>(((warp % columns) << shift) + (lane & (row_threads - 1)));
  const LaneQuantizer<Format> tile(args, Format::prepare(args.quantize.global_scale), group);
  const std::int64_t rows = args.quantize.rows;
  std::int64_t row = (slot << (5 - shift)) + (lane >> shift);
  const std::int64_t step = args.row_step;
  if (slot << (5 - shift) >= step) return;  // a warp beyond the last slot

  Producer producer(args, {row, group, tile.column.valid, row_threads == 32}, stage);
  std::uint8_t* codes = tile.codes_of(row);
  std::uint8_t* scales = tile.scales_of(row);
  if constexpr (Whole) {
    producer.inputs.start_whole(row < rows);
    while (row < rows) {
      LaneValues v;
      producer.produce(v);
      if (args.tiled) scales = tile.scales_of(row);
      row += step;
      __syncwarp();
      producer.inputs.start_whole(row < rows);
      tile.run_whole(v, codes, scales);
      codes += args.code_step;
      scales += args.scale_step;  // row-major ones
    }
  } else {
    bool exists = row < rows;
    producer.inputs.start(exists);
    for (std::int64_t turn = 0; turn < args.turns; ++turn) {
      LaneValues v;
      producer.produce(v);
      if (args.tiled) scales = tile.scales_of(row);
      const bool padding = !exists && tile.is_padding(row);
      row += step;
      const bool next = row < rows;
      __syncwarp();
      producer.inputs.start(next);
      tile.run(v, exists, padding, codes, scales);
      codes += args.code_step;
      scales += args.scale_step;  // row-major ones
      exists = next;
    }
  }
}

/// WholeProducer where FusedArgs::whole allows it and `special` says that it serves.
template <class Producer, class WholeProducer, class Format>
__device__ void fused_lanes(const FusedArgs& args, bool special) {
  __shared__ __align__(64) char stages[threads_per_block / 32][Producer::stage_bytes];
  char* const stage = stages[threadIdx.x / 32];
  if constexpr (!Format::searches && Producer::element_bytes == 2) {
    if (args.whole && special) {
      fused_lanes_of<WholeProducer, Format, true>(args, stage);
      return;
    }
  }
  fused_lanes_of<Producer, Format, false>(args, stage);
}

template <class Input, class Format>
__device__ void fused_silu_mul(const FusedArgs& args) {
  fused_lanes<SiluMul<Input>, SiluMul<Input>, Format>(args, true);
}

/// The common order is compiled by itself.
template <class Input, class Format>
__device__ void fused_hadamard(const FusedArgs& args) {
  fused_lanes<Hadamard<Input, 0>, Hadamard<Input, 32>, Format>(args, args.order == 32);
}

}  // namespace microscale::cuda
