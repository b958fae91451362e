// Level 4: the staging buffer holds FP16, and when k has become codes, v takes its place there.
//
// Shared: 64 d of FP16, codes and scales: 33,280 bytes for d = 128. The article expects three
// thread blocks an SM of that; there are two, because each costs another kilobyte and three would
// take 102,912 of 102,400 bytes. (d = 64 fits more.)
//
// "Any rounding disappears in the quantization step" is not so. v is not quantized: it is FP16 from
// here on, 2^-12 of each element. And q and k are rounded twice: a number near the middle between
// two codes is put on it by the first rounding, and then the second decides for the even one. Above
// 65,504 there is infinity, which FP32 did not have.
#pragma once

#include "3_v_in_shared.cuh"

namespace levels {

template <int Elements>
__device__ inline void stage(std::uint16_t* to, const float* from) {
  for (int i = threadIdx.x; i < Elements; i += attention_threads)
    to[i] = static_cast<std::uint16_t>(microscale::ptx::cvt_rn_f16x2_f32(from[i], 0));
}

/// Two elements of FP16, aligned to 4 bytes.
__device__ inline float2 half_pair(const std::uint16_t* at) {
  const std::uint32_t pair = *reinterpret_cast<const std::uint32_t*>(at);
  return make_float2(microscale::ptx::cvt_f32_f16(pair), microscale::ptx::cvt_f32_f16(pair >> 16));
}

template <int D, class Arithmetic, int Alignment>
__device__ inline void half_staging(const AttentionArgs& args) {
  extern __shared__ uint4 memory[];
  __shared__ CodeMemory<D, D, Alignment> codes;
  auto* staging = reinterpret_cast<std::uint16_t*>(memory);
  const Lane lane;
  const std::int64_t head = static_cast<std::int64_t>(blockIdx.x) * D;
  const auto* queries = static_cast<const float*>(args.q) + head * tile_tokens;
  const auto* keys = static_cast<const float*>(args.k) + head * args.keys;
  const auto* values = static_cast<const float*>(args.v) + head * args.keys;

  stage<tile_tokens * D>(staging, queries);
  __syncthreads();
  quantize_tile<D, Arithmetic>(staging, codes.q(), args.rule);
  RowSums<D> sums;
  for (int first = 0; first < args.keys; first += tile_tokens) {
    __syncthreads();
    stage<tile_tokens * D>(staging, keys + first * D);
    __syncthreads();
    quantize_tile<D, Arithmetic>(staging, codes.k(), args.rule);
    __syncthreads();  // k is codes now
    stage<tile_tokens * D>(staging, values + first * D);
    __syncthreads();
#pragma unroll 1
    for (int key = 0; key < tile_tokens; key += 8) {
      float s[4] = {};
      score<D>(s, lane, codes.q(), codes.k(), key);
      const std::uint16_t* v = staging + key * D;
      sums.add(s, args.scale, lane,
               [&](int i, int element) { return half_pair(v + i * D + element); });
    }
  }
  sums.store(args.o + head * tile_tokens, lane);
}

extern "C" __global__ void __launch_bounds__(attention_threads)
    attention_4_half_staging_128(AttentionArgs args) {
  half_staging<128, Divide, 1>(args);
}
extern "C" __global__ void __launch_bounds__(attention_threads)
    attention_4_half_staging_64(AttentionArgs args) {
  half_staging<64, Divide, 1>(args);
}

}  // namespace levels
