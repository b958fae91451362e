// Level 7: the quantizer leaves the kernel. q and k come as codes, one in a byte as the instruction
// wants them, with their scales; v as FP16. They are quantized once, by the library's quantizer,
// and not again for every 64 queries that read them.
//
// Shared: as level 4, what was the staging buffer is v's. Global memory: 1 byte an element of k and
// 2 of v in place of 4 and 4.
#pragma once

#include "6_hardware_cvt.cuh"
#include "cuda/ptx/memory.cuh"

namespace levels {

/// So many bytes, a multiple of 16 aligned to 16, by threads of the block in turn.
template <int Count>
__device__ inline void copy_bytes(void* to, const void* from) {
  for (int i = threadIdx.x; i < Count / 16; i += attention_threads)
    static_cast<uint4*>(to)[i] =
        microscale::ptx::ld_global_nc_no_allocate_v4(static_cast<const uint4*>(from) + i);
}

/// RowBytes: of a row's codes. `product` computes the scores of eight keys.
template <int D, int RowBytes, class Product>
__device__ inline void quantized_before(const AttentionArgs& args, const Product& product) {
  extern __shared__ uint4 memory[];
  __shared__ CodeMemory<D, RowBytes, 16> codes;
  auto* value_tile = reinterpret_cast<std::uint16_t*>(memory);
  const CodeTile q = codes.q(), k = codes.k();
  constexpr int code_bytes = tile_tokens * RowBytes, scale_bytes = tile_tokens * D / scale_block;
  const Lane lane;
  const std::int64_t head = blockIdx.x, first_key = head * args.keys;
  const auto* queries = static_cast<const std::uint8_t*>(args.q) + head * tile_tokens * RowBytes;
  const auto* keys = static_cast<const std::uint8_t*>(args.k) + first_key * RowBytes;
  const auto* values = static_cast<const std::uint16_t*>(args.v) + first_key * D;
  const auto* key_scales = args.k_scales + first_key * (D / scale_block);

  copy_bytes<code_bytes>(q.codes, queries);
  copy_bytes<scale_bytes>(q.scales, args.q_scales + head * scale_bytes);
  RowSums<D> sums;
  for (int first = 0; first < args.keys; first += tile_tokens) {
    __syncthreads();
    copy_bytes<code_bytes>(k.codes, keys + first * RowBytes);
    copy_bytes<scale_bytes>(k.scales, key_scales + first * (D / scale_block));
    copy_bytes<2 * tile_tokens * D>(value_tile, values + first * D);
    __syncthreads();
#pragma unroll 1
    for (int key = 0; key < tile_tokens; key += 8) {
      float s[4] = {};
      product(s, lane, q, k, key);
      const std::uint16_t* v = value_tile + key * D;
      sums.add(s, args.scale, lane,
               [&](int i, int element) { return half_pair(v + i * D + element); });
    }
  }
  sums.store(args.o + head * tile_tokens * D, lane);
}

template <int D>
__device__ inline void containers(const AttentionArgs& args) {
  quantized_before<D, D>(args, [](float(&s)[4], const Lane& lane, CodeTile q, CodeTile k, int key) {
    score<D>(s, lane, q, k, key);
  });
}

extern "C" __global__ void __launch_bounds__(attention_threads)
    attention_7_containers_128(AttentionArgs args) {
  containers<128>(args);
}
extern "C" __global__ void __launch_bounds__(attention_threads)
    attention_7_containers_64(AttentionArgs args) {
  containers<64>(args);
}

}  // namespace levels
