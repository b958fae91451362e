// Rows of the result from the accumulators of wgmma: a thread has pairs of neighbours of two rows,
// four threads a row. For 16-bit results they trade until each has eight neighbours.
#pragma once

#include <cstdint>

#include "cuda/ptx/memory.cuh"
#include "cuda/attention/prefill/item.cuh"
#include "cuda/matmul/product_output.cuh"

namespace microscale::cuda {

/// Word i of lane t of four becomes word t of lane i.
__device__ inline void transpose_four(std::uint32_t (&w)[4]) {
  const std::uint32_t lane = threadIdx.x % 4;
#pragma unroll
  for (int distance = 1; distance <= 2; distance *= 2) {
    const bool upper = lane & distance;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i & distance) continue;
      const std::uint32_t sent = upper ? w[i] : w[i + distance];
      const std::uint32_t got = __shfl_xor_sync(~0u, sent, distance);
      if (upper)
        w[i] = got;
      else
        w[i + distance] = got;
    }
  }
}

/// Rows `row` and row + 8 of the item: sums times `by`; 0 where nothing was seen.
template <int Width>
__device__ void store_prefill_rows(const AttentionPrefillArgs& args, const PrefillItem& item,
                                   int row, const float (&weight)[2], const float (&by)[2],
                                   const float (&o)[Width / 2]) {
  const auto type = static_cast<DType>(args.output.type);
  const int lane = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const bool here = row + 8 * half < item.count;
    const std::int64_t at = here ? item.place(args, args.output, row + 8 * half) : 0;
    char* const to = static_cast<char*>(args.output.data) + at * (type == DType::f32 ? 4 : 2);
    const auto value = [&](int i) {
      return weight[half] == 0.0f ? 0.0f : __fmul_rn(o[i / 2 * 4 + 2 * half + i % 2], by[half]);
    };
#pragma unroll
    for (int first = 0; first < Width; first += 32) {  // columns; d is a multiple of 32
      if (first >= args.keys.d) break;
      const int i = first / 4;
      if (type == DType::f32) {
#pragma unroll
        for (int j = 0; j < 4; ++j)
          if (here)
            ptx::st_global_v2(to + (first + 8 * j + 2 * lane) * 4,
                              __float_as_uint(value(i + 2 * j)),
                              __float_as_uint(value(i + 2 * j + 1)));
        continue;
      }
      std::uint32_t w[4];
#pragma unroll
      for (int j = 0; j < 4; ++j)
        w[j] = type == DType::f16 ? ptx::cvt_rn_f16x2_f32(value(i + 2 * j), value(i + 2 * j + 1))
                                  : ptx::cvt_rn_bf16x2_f32(value(i + 2 * j), value(i + 2 * j + 1));
      transpose_four(w);
      if (here) ptx::st_global_v4(to + (first + 8 * lane) * 2, make_uint4(w[0], w[1], w[2], w[3]));
    }
  }
}

}  // namespace microscale::cuda
