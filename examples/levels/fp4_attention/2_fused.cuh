// Level 2: the fused kernel. FP32 comes in; q once, and k tile by tile, is staged in shared memory
// and quantized there; scores stay in registers; v is read from global memory, 8 bytes at a time,
// for every eight keys.
//
// Shared: 64 d of FP32, 2 * 64 d of codes, 2 * 64 d / 32 of scales: 49,664 bytes for d = 128.
// Limit: waiting. Two thread blocks fit an SM, which is 8 warps of 48, and each asks global memory
// for d / 8 pieces of v a key and then has nothing else to do.
//
// The article calls those loads uncoalesced. They are not: four lanes read 32 neighbouring bytes
// and the other 28 lanes the same 32, one sector a load. There are just too many of them.
#pragma once

#include "quantize.cuh"
#include "softmax.cuh"

namespace levels {

/// Neighbouring threads, neighbouring elements.
template <int Elements>
__device__ inline void stage(float* to, const float* from) {
  for (int i = threadIdx.x; i < Elements; i += attention_threads) to[i] = from[i];
}

template <int D>
__device__ inline void fused(const AttentionArgs& args) {
  extern __shared__ uint4 memory[];
  __shared__ CodeMemory<D, D> codes;
  auto* staging = reinterpret_cast<float*>(memory);
  const Lane lane;
  const std::int64_t head = static_cast<std::int64_t>(blockIdx.x) * D;
  const auto* queries = static_cast<const float*>(args.q) + head * tile_tokens;
  const auto* keys = static_cast<const float*>(args.k) + head * args.keys;
  const auto* values = static_cast<const float*>(args.v) + head * args.keys;

  stage<tile_tokens * D>(staging, queries);
  __syncthreads();
  quantize_tile<D, Divide>(staging, codes.q(), args.rule);
  RowSums<D> sums;
  for (int first = 0; first < args.keys; first += tile_tokens) {
    __syncthreads();  // the last tile is done with
    stage<tile_tokens * D>(staging, keys + first * D);
    __syncthreads();
    quantize_tile<D, Divide>(staging, codes.k(), args.rule);
    __syncthreads();
#pragma unroll 1
    for (int key = 0; key < tile_tokens; key += 8) {
      float s[4] = {};
      score<D>(s, lane, codes.q(), codes.k(), key);
      const float* v = values + (first + key) * D;
      sums.add(s, args.scale, lane, [&](int i, int element) {
        return *reinterpret_cast<const float2*>(v + i * D + element);
      });
    }
  }
  sums.store(args.o + head * tile_tokens, lane);
}

extern "C" __global__ void __launch_bounds__(attention_threads)
    attention_2_fused_128(AttentionArgs args) {
  fused<128>(args);
}
extern "C" __global__ void __launch_bounds__(attention_threads)
    attention_2_fused_64(AttentionArgs args) {
  fused<64>(args);
}

}  // namespace levels
