// Level 3: v's tile is brought to shared memory like k's, and read from there.
//
// Shared: level 2 and 64 d of FP32: 82,432 bytes for d = 128, so one thread block an SM in place of
// two. Whether that pays is a question of what was waited for: v from global memory is hundreds of
// cycles away, from shared memory some thirty.
#pragma once

#include "2_fused.cuh"

namespace levels {

template <int D>
__device__ inline void v_in_shared(const AttentionArgs& args) {
  extern __shared__ uint4 memory[];
  __shared__ CodeMemory<D, D> codes;
  auto* staging = reinterpret_cast<float*>(memory);
  float* value_tile = staging + tile_tokens * D;
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
    __syncthreads();
    stage<tile_tokens * D>(staging, keys + first * D);
    stage<tile_tokens * D>(value_tile, values + first * D);
    __syncthreads();
    quantize_tile<D, Divide>(staging, codes.k(), args.rule);
    __syncthreads();
#pragma unroll 1
    for (int key = 0; key < tile_tokens; key += 8) {
      float s[4] = {};
      score<D>(s, lane, codes.q(), codes.k(), key);
      const float* v = value_tile + key * D;
      sums.add(s, args.scale, lane, [&](int i, int element) {
        return *reinterpret_cast<const float2*>(v + i * D + element);
      });
    }
  }
  sums.store(args.o + head * tile_tokens, lane);
}

extern "C" __global__ void __launch_bounds__(attention_threads)
    attention_3_v_in_shared_128(AttentionArgs args) {
  v_in_shared<128>(args);
}
extern "C" __global__ void __launch_bounds__(attention_threads)
    attention_3_v_in_shared_64(AttentionArgs args) {
  v_in_shared<64>(args);
}

}  // namespace levels
