// A warp's part of a row of a in shared memory (unpacked_kernel.cuh): its own columns of all
// stages, of up to two matrices at once. The warp makes it itself, so it waits for no other warp.
#pragma once

#include <cstdint>

#include "cuda/block/decode.cuh"
#include "cuda/matmul/fallback/prepare.cuh"
#include "cuda/matmul/few_rows/args.hpp"
#include "cuda/ptx/memory.cuh"
#include "cuda/ptx/scalar.cuh"

namespace microscale::cuda::few_rows {

// From elements of a as they lie in memory to the second operand of unpacked_weights.cuh in shared
// memory. A lane makes 32 neighbours at a time, what lane t of four meets in the weights: two parts
// of 16, each for a column of its own (cuda/matmul/lane_parts.cuh).

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

template <class Units>
class UnpackedRow {
  static constexpr int rounds_ahead = 2;

 public:
  /// What a lane loads at once: its 32 elements of stages lane / 8 and lane / 8 + 4; zeros beyond
  /// the row's end, which are not multiplied.
  struct Raw {
    RawElements rounds[rounds_ahead];
  };

  /// `base`: shared memory.
  __device__ UnpackedRow(const UnpackedArgs& args, std::uint32_t base, int warp)
      : args_(args), base_(base), warp_(warp) {}

  __device__ Raw load(std::uint32_t matrix) const {
    Raw raw;
#pragma unroll
    for (int round = 0; round < rounds_ahead; ++round) raw.rounds[round] = load(matrix, round);
    return raw;
  }

  /// Puts a row where `at` finds it. Returns what the warp's sums of it are to be multiplied by.
  __device__ float make(std::uint32_t matrix, const Raw& raw, int buffer) const {
    const int rounds = (args_.stages + 3) / 4;
    unsigned int largest = 0;
#pragma unroll
    for (int round = 0; round < rounds_ahead; ++round)
      largest = max(largest, Units::largest(args_, raw.rounds[round]));
    for (int round = rounds_ahead; round < rounds; ++round)
      largest = max(largest, Units::largest(args_, load(matrix, round)));
    largest = __reduce_max_sync(0xFFFFFFFFu, largest);
    __syncwarp();  // what was in the buffer is read
#pragma unroll
    for (int round = 0; round < rounds_ahead; ++round)
      store(raw.rounds[round], largest, round, buffer);
    for (int round = rounds_ahead; round < rounds; ++round)
      store(load(matrix, round), largest, round, buffer);
    __syncwarp();
    return Units::largest_to_factor(args_, largest);
  }

  __device__ UnitsPlace at(int buffer, int stage) const {
    const int index = (buffer * unpacked_warps + warp_) * args_.stages + stage;
    return {base_ + args_.shared.units + index * stage_units_bytes,
            base_ + args_.shared.unit_scales + index * stage_unit_scales_bytes};
  }

 private:
  __device__ static int stage_of(int round) { return lane() / 8 + 4 * round; }
  __device__ int column_of(int stage) const {
    return stage * stage_columns + warp_ * warp_columns + 32 * (lane() % 8);
  }
  __device__ RawElements load(std::uint32_t matrix, int round) const {
    const int column = column_of(stage_of(round));
    if (column >= args_.k) return {};
    return Units::load(args_, matrix, column);
  }
  __device__ void store(const RawElements& raw, unsigned int largest, int round, int buffer) const {
    const int stage = stage_of(round), half = lane() / 4 % 2;
    if (column_of(stage) >= args_.k) return;
    UnitsPlace to = at(buffer, stage);
    to.units += half * half_units_bytes;
    to.scales += half * half_unit_scales_bytes;
    Units::store(args_, raw, largest, lane() % 4, to);
  }
  __device__ static int lane() { return static_cast<int>(threadIdx.x % 32); }

  const UnpackedArgs& args_;
  const std::uint32_t base_;
  const int warp_;
};

}  // namespace microscale::cuda::few_rows
