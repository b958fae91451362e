// Block-scaled to dense: value = element * step in FP32, rounded once more where the output is
// narrower. A lane takes four chunks of eight codes, one below the other (args.hpp).
#pragma once

#include <cstdint>

#include "cuda/quantize/args.hpp"
#include "cuda/ptx/memory.cuh"
#include "cuda/block/block_scale.cuh"
#include "cuda/block/decode.cuh"
#include "layouts/tiled_128x4.hpp"

namespace microscale::cuda {

struct OutputF32 {
  static constexpr int element_bytes = 4;
  // 32 bytes a lane: neighbours trade halves, so that a pair of lanes fills a 32-byte sector per
  // store.
  __device__ static void store(char* address, const float (&v)[8]) {
    const bool odd = threadIdx.x & 1;
    const unsigned mask =
        __activemask();  // a block is at least two lanes, so a pair is active or not
    float kept[4], other[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      kept[i] = odd ? v[4 + i] : v[i];
      other[i] = __shfl_xor_sync(mask, odd ? v[i] : v[4 + i], 1);
    }
    // Store 1: the even lane's chunk; store 2: the odd lane's.
    char* even_chunk = odd ? address - 32 : address;
    const uint4 mine = make_uint4(__float_as_uint(kept[0]), __float_as_uint(kept[1]),
                                  __float_as_uint(kept[2]), __float_as_uint(kept[3]));
    const uint4 theirs = make_uint4(__float_as_uint(other[0]), __float_as_uint(other[1]),
                                    __float_as_uint(other[2]), __float_as_uint(other[3]));
    ptx::st_global_v4(even_chunk + (odd ? 16 : 0), odd ? theirs : mine);
    ptx::st_global_v4(even_chunk + 32 + (odd ? 16 : 0), odd ? mine : theirs);
  }
};

struct OutputBf16 {
  static constexpr int element_bytes = 2;
  __device__ static void store(char* address, const float (&v)[8]) {
    ptx::st_global_v4(
        address,
        make_uint4(ptx::cvt_rn_bf16x2_f32(v[0], v[1]), ptx::cvt_rn_bf16x2_f32(v[2], v[3]),
                   ptx::cvt_rn_bf16x2_f32(v[4], v[5]), ptx::cvt_rn_bf16x2_f32(v[6], v[7])));
  }
};

struct OutputF16 {
  static constexpr int element_bytes = 2;
  __device__ static void store(char* address, const float (&v)[8]) {
    ptx::st_global_v4(
        address, make_uint4(ptx::cvt_rn_f16x2_f32(v[0], v[1]), ptx::cvt_rn_f16x2_f32(v[2], v[3]),
                            ptx::cvt_rn_f16x2_f32(v[4], v[5]), ptx::cvt_rn_f16x2_f32(v[6], v[7])));
  }
};

/// Codec: the element's; E8M0: the scale is a power of two, else E4M3 times the global scale.
template <class Codec, bool E8M0, class Output>
__device__ void dequantize_rows(const DequantizeArgs& args) {
  constexpr int block = E8M0 ? 32 : 16;
  constexpr int chunk_bytes = Codec::mantissa_bits == 1 ? 4 : 8;
  const int shift = args.column_shift;
  const std::int64_t chunk =
      (static_cast<std::int64_t>(blockIdx.x) << shift) + (threadIdx.x & ((1u << shift) - 1));
  const std::int64_t column = chunk * chunk_elements;
  const int rows_apart = threads_per_block >> shift;
  const std::int64_t slab = blockIdx.y + static_cast<std::int64_t>(gridDim.y) * blockIdx.z;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.y) * gridDim.z * (4 * rows_apart);
  if (column >= args.cols) return;

  const std::int64_t blocks = args.cols / block;
  const float global_scale = E8M0 ? 1.0f : *args.global_scale;
  for (std::int64_t first_row = slab * (4 * rows_apart) + (threadIdx.x >> shift);
       first_row < args.rows; first_row += stride) {
    uint2 codes[4];
    std::uint32_t scale[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const std::int64_t row = first_row + j * rows_apart;
      if (row >= args.rows) break;
      const std::uint8_t* source = args.codes + row * args.code_stride + chunk * chunk_bytes;
      if constexpr (chunk_bytes == 4)
        codes[j].x = ptx::ld_global_nc_b32(source);
      else
        codes[j] = ptx::ld_global_nc_v2(source);
      scale[j] = __ldg(args.scales + (args.tiled ? tiled_128x4::offset(row, column / block, blocks)
                                                 : row * blocks + column / block));
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const std::int64_t row = first_row + j * rows_apart;
      if (row >= args.rows) break;
      float step, values[8];
      if constexpr (E8M0)
        step = decode_e8m0(static_cast<std::uint8_t>(scale[j]));
      else
        step = __fmul_rn(decode_e4m3(scale[j] & 0x7Fu), global_scale);
      if constexpr (chunk_bytes == 4)
        decode_e2m1(codes[j].x, values);
      else
        decode_fp8<Codec>(codes[j], values);
#pragma unroll
      for (int i = 0; i < 8; ++i) values[i] = __fmul_rn(values[i], step);
      Output::store(static_cast<char*>(args.output) +
                        (row * args.row_stride + column) * Output::element_bytes,
                    values);
    }
  }
}

}  // namespace microscale::cuda
