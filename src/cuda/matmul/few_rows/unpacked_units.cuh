// From elements of a as they lie in memory to the second operand of unpacked_weights.cuh in shared
// memory. A lane makes 32 neighbours at a time, what lane t of four meets in the weights: two parts
// of 16, each for a column of its own (cuda/matmul/lane_parts.cuh).
#pragma once

#include <cstdint>

#include "cuda/matmul/few_rows/plan.hpp"
#include "cuda/ptx/memory.cuh"
#include "cuda/ptx/permute.cuh"
#include "cuda/matmul/fallback/prepare.cuh"
#include "cuda/matmul/weight_fragments.cuh"

namespace microscale::cuda::few_rows {

/// Twice the magnitudes of the low 16 bits' E2M1 codes as bytes, 0 where a code has a sign.
__device__ inline std::uint32_t twice_unsigned(std::uint32_t codes) {
  return ptx::prmt_b32(0x03020100u, 0x0C080604u, codes);
}
/// The same times -1, of codes without a sign.
__device__ inline std::uint32_t minus_twice_unsigned(std::uint32_t codes) {
  return ptx::prmt_b32(0xFDFEFF00u, 0xF4F8FAFCu, codes);
}

/// A lane's 32 elements as they lie in memory, and their block scales.
struct RawElements {
  uint4 words[4];  // codes fill the first
  std::uint32_t scales;
};

/// Shared addresses: where elements of a stage go, and their scales.
struct UnitsPlace {
  std::uint32_t units, scales;
};

/// The four signed bytes of the low 16 bits' codes, doubled, and what they are times -1.
struct SignedBytes {
  std::uint32_t plus, minus;
};
__device__ inline SignedBytes signed_bytes(std::uint32_t codes) {
  const std::uint32_t magnitudes = codes & 0x7777u;
  const std::uint32_t above = twice_unsigned(magnitudes), below = minus_twice_unsigned(magnitudes);
  const std::uint32_t negative = ptx::prmt_b32(codes << 4, codes, 0xD9C8);  // 255 where signed
  return {(above & ~negative) | (below & negative), (below & ~negative) | (above & negative)};
}

/// Rows of NVFP4 and MXFP4: bytes, twice the elements and their negatives.
struct CodeUnits {
  static constexpr float factor = 0.25f;  // of the sums: both sides are doubled

  __device__ static RawElements load(const Args& args, std::int64_t matrix, int column) {
    RawElements raw{};
    const auto* codes = static_cast<const std::uint8_t*>(args.a.data) + matrix * args.a.stride;
    raw.words[0] = ptx::ld_global_nc_no_allocate_v4(codes + column / 2);
    const std::uint8_t* scales = args.a.scales + matrix * args.a.scale_matrix;
    const bool nv = static_cast<RowKind>(args.a.kind) == RowKind::nvfp4;
    const int block = column >> (nv ? 4 : 5);
    const int at =
        args.a.tiled ? block / 4 * static_cast<int>(tiled_128x4::tile_bytes) + block % 4 : block;
    raw.scales = nv ? __ldg(reinterpret_cast<const std::uint16_t*>(scales + at))
                    : __ldg(scales + at) * 0x101u;
    return raw;
  }
  /// What a warp's sums of this matrix are to be multiplied by.
  __device__ static float largest_to_factor(const Args&, unsigned int) { return factor; }
  __device__ static unsigned int largest(const Args&, const RawElements&) { return 0; }

  __device__ static void store(const Args& args, const RawElements& raw, unsigned int, int t,
                               const UnitsPlace& to) {
    const std::uint32_t words[4] = {raw.words[0].x, raw.words[0].y, raw.words[0].z, raw.words[0].w};
    const bool nv = static_cast<RowKind>(args.a.kind) == RowKind::nvfp4;
#pragma unroll
    for (int part = 0; part < 2; ++part) {
      SignedBytes four[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) four[i] = signed_bytes(words[2 * part + i / 2] >> i % 2 * 16);
      const std::uint32_t at = to.units + 16 * (2 * t + part);
      ptx::st_shared_v4(at, make_uint4(four[0].plus, four[1].plus, four[2].plus, four[3].plus));
      ptx::st_shared_v4(at + 128,
                        make_uint4(four[0].minus, four[1].minus, four[2].minus, four[3].minus));
      const std::uint32_t byte = raw.scales >> 8 * part & 0xFFu;
      ptx::st_shared_f32(
          to.scales + 4 * (2 * t + part),
          nv ? decode_e4m3(byte & 0x7Fu) : decode_e8m0(static_cast<std::uint8_t>(byte)));
    }
  }
};

/// Rows of FP16, and of BF16 as FP16: times a power of two for each warp's part of a row.
struct HalfUnits {
  __device__ static RawElements load(const Args& args, std::int64_t matrix, int column) {
    RawElements raw{};
    const auto* elements = static_cast<const std::uint8_t*>(args.a.data) + matrix * args.a.stride;
#pragma unroll
    for (int i = 0; i < 4; ++i)
      raw.words[i] = ptx::ld_global_nc_no_allocate_v4(elements + 2 * column + 16 * i);
    return raw;
  }
  __device__ static bool bf16(const Args& args) {
    return static_cast<RowKind>(args.a.kind) == RowKind::bf16;
  }
  __device__ static unsigned int largest(const Args& args, const RawElements& raw) {
    unsigned int found = 0;
    if (!bf16(args)) return found;
#pragma unroll
    for (const uint4& four : raw.words)
      for (const std::uint32_t pair : {four.x, four.y, four.z, four.w})
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const unsigned int magnitude = pair >> 16 * half & 0x7FFFu;
          if (magnitude < 0x7F80u) found = max(found, magnitude);
        }
    return found;
  }
  __device__ static float largest_to_factor(const Args& args, unsigned int largest) {
    constexpr float of_codes = 1 << e2m1_bits_bias;
    if (!bf16(args)) return of_codes;
    const int power = power_to_f16(largest);
    return __fmul_rn(__fmul_rn(power_of_two(-(power / 2)), power_of_two(power / 2 - power)),
                     of_codes);
  }

  __device__ static void store(const Args& args, const RawElements& raw, unsigned int largest,
                               int t, const UnitsPlace& to) {
    const int power = bf16(args) ? power_to_f16(largest) : 0;
    const float first = power_of_two(power / 2), second = power_of_two(power - power / 2);
#pragma unroll
    for (int word = 0; word < 4; ++word) {
      std::uint32_t pairs[4] = {raw.words[word].x, raw.words[word].y, raw.words[word].z,
                                raw.words[word].w};
      if (bf16(args))
#pragma unroll
        for (std::uint32_t& pair : pairs) {
          const float low = __uint_as_float(pair << 16), high = __uint_as_float(pair & 0xFFFF0000u);
          pair = ptx::cvt_rn_f16x2_f32(__fmul_rn(__fmul_rn(low, first), second),
                                       __fmul_rn(__fmul_rn(high, first), second));
        }
      // In the order of e2m1_of_word: elements 3 and 7, 2 and 6, 1 and 5, 0 and 4.
      ptx::st_shared_v4(to.units + 16 * (2 * t + word / 2) + 128 * (word % 2),
                        make_uint4(ptx::prmt_b32(pairs[1], pairs[3], 0x7632),
                                   ptx::prmt_b32(pairs[1], pairs[3], 0x5410),
                                   ptx::prmt_b32(pairs[0], pairs[2], 0x7632),
                                   ptx::prmt_b32(pairs[0], pairs[2], 0x5410)));
    }
  }
};

}  // namespace microscale::cuda::few_rows
