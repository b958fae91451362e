// 32 neighbouring FP32 values of a row in one thread, whole blocks of every format: to codes and
// scales, and those to memory. For kernels whose values come from arithmetic;
// cuda/block/lane_chunks.cuh, where a block lies on several lanes, is for values that come straight
// from memory.
#pragma once

#include <cstdint>

#include "cuda/block/block_scale.cuh"
#include "cuda/block/encode.cuh"
#include "cuda/block/input_chunk.cuh"
#include "cuda/block/mx_format.cuh"
#include "cuda/block/nvfp4_format.cuh"
#include "cuda/block/rounding_errors.cuh"
#include "cuda/quantize/fused_loads.cuh"
#include "cuda/quantize/fused_args.hpp"
#include "cuda/quantize/args.hpp"
#include "formats/integers.hpp"
#include "layouts/tiled_128x4.hpp"

namespace microscale::cuda {

/// The values, chunk by chunk, as FP32 bits.
using LaneValues = std::uint32_t[lane_chunks][InputF32::words];

namespace detail {

template <int Chunks>
__device__ __forceinline__ std::uint32_t lane_amax(const LaneValues& v, int first) {
  float largest = 0.0f;
#pragma unroll
  for (int k = 0; k < Chunks; ++k)
#pragma unroll
    for (int i = 0; i < chunk_elements; ++i)
      largest = ptx::max_nan_abs_f32(largest, __uint_as_float(v[first + k][i]));
  return __float_as_uint(largest);
}

template <int Chunks>
__device__ __forceinline__ std::uint32_t lane_amax_without_nan(const LaneValues& v, int first) {
  std::uint32_t largest = 0;
#pragma unroll
  for (int k = 0; k < Chunks; ++k)
#pragma unroll
    for (int i = 0; i < chunk_elements; ++i) {
      const std::uint32_t magnitude = v[first + k][i] & 0x7FFFFFFFu;
      if (magnitude <= infinity_bits) largest = max(largest, magnitude);
    }
  return largest;
}

/// Squared error of a block, summed as block_sum does.
template <class Codec, int Chunks>
__device__ __forceinline__ float lane_error(const LaneValues& v, int first, float multiplier) {
  float sum[Chunks];
#pragma unroll
  for (int k = 0; k < Chunks; ++k) sum[k] = chunk_error<Codec, InputF32>(v[first + k], multiplier);
#pragma unroll
  for (int width = Chunks; width > 1; width /= 2)
#pragma unroll
    for (int k = 0; k < width / 2; ++k) sum[k] = __fadd_rn(sum[2 * k], sum[2 * k + 1]);
  return sum[0];
}

/// ScaleRule::search: as MxFormat::search and Nvfp4Format::search, with the block in one lane.
template <class Codec>
__device__ __forceinline__ void lane_search(MxFormat<Codec, true>,
                                            typename MxFormat<Codec, true>::Shared,
                                            const LaneValues& v, int, std::uint32_t& told,
                                            std::uint32_t& scale) {
  using Format = MxFormat<Codec, true>;
  const std::uint32_t byte = scale & 0xFFu;
  if ((scale & keep_scale) || byte == e8m0_max) return;
  const float lower = lane_error<Codec, lane_chunks>(v, 0, Format::multiplier(byte));
  const float upper = lane_error<Codec, lane_chunks>(v, 0, Format::multiplier(byte + 1));
  if (__fmul_rn(upper, 4.0f) < lower) told = scale = byte + 1;
}

__device__ __forceinline__ void lane_search(Nvfp4Format<true>, Nvfp4Format<true>::Shared shared,
                                            const LaneValues& v, int first, std::uint32_t& told,
                                            std::uint32_t& scale) {
  if (scale & keep_scale) return;
  const int nearest = static_cast<int>(scale & 0xFFu);
  const int lowest = max(nearest - nvfp4_window_below, 1);
  const int last = min(nearest + nvfp4_window_above, static_cast<int>(nvfp4_max_scale));
  float least = 0.0f;
  for (int code = lowest; code <= last; ++code) {
    const float multiplier = shared.multipliers[code];
    const float error = __fmul_rn(lane_error<E2M1, 2>(v, first, multiplier), shared.squares[code]);
    if (code == lowest || error < least) {
      least = error;
      scale = static_cast<std::uint32_t>(code);
      told = __float_as_uint(multiplier);
    }
  }
}

}  // namespace detail

/// A lane's place in every row that it visits. `valid` of its 32 elements exist: 32, 16 (end of an
/// NVFP4 row) or none.
struct LaneColumn {
  int valid;
  bool even_valid, odd_valid;  // whether any exist in this lane or its neighbour, by their parity
  std::int64_t block;          // the first of its blocks
};

/// The quantizer of a lane, what it knows once for all its rows. What takes values is inlined by
/// force: a call would put them into local memory.
template <class Format>
struct LaneQuantizer {
  static constexpr int blocks_here = lane_elements / Format::block;
  static constexpr int block_chunks = Format::block / chunk_elements;
  static constexpr int words_here = lane_elements * Format::code_bits / 32;
  static constexpr unsigned scale_lanes = 4 / blocks_here;  // that hold four blocks
  using Shared = typename Format::Shared;

  const FusedArgs& args;
  typename Format::Shared shared;
  LaneColumn column;
  std::int64_t blocks;   // of a row
  bool words_of_scales;  // scale bytes leave four at a time
  bool stores_scales;    // this lane does, in a row that exists (tiled: or in a padding row)
  bool wide_rows;        // every row of codes starts at a multiple of 16 bytes
  std::uint8_t* scales;  // of this column in row 0
  std::uint64_t tile_row_bytes;
  std::uint32_t scale_mask;  // of the blocks that exist

  /// `prepared`: Format::prepare's, once a thread block; `group`: which 32 elements of a row.
  __device__ LaneQuantizer(const FusedArgs& a, const typename Format::Shared& prepared, int group)
      : args(a), shared(prepared) {
    const std::int64_t cols = a.quantize.cols;
    blocks = static_cast<std::int64_t>(static_cast<std::uint64_t>(cols) / Format::block);
    column.valid = valid_at(cols, group);
    column.even_valid = valid_at(cols, group & ~1) != 0;
    column.odd_valid = valid_at(cols, group | 1) != 0;
    column.block = static_cast<std::int64_t>(group) * blocks_here;
    words_of_scales = args.tiled || (blocks & 3) == 0;
    stores_scales = column.block < blocks;
    if (words_of_scales) stores_scales &= (threadIdx.x & (scale_lanes - 1)) == 0;
    scales = a.quantize.scales +
             (args.tiled ? tiled_128x4::offset(0, column.block, blocks) : column.block);
    tile_row_bytes = static_cast<std::uint64_t>(ceil_div(blocks, 4)) * tiled_128x4::tile_bytes;
    scale_mask = column.valid == 0 ? 0u : column.valid < lane_elements ? 0xFFu : 0xFFFFu;
    wide_rows = Format::block == lane_elements || (cols & 31) == 0;
  }

  __device__ static int valid_at(std::int64_t cols, int group) {
    const std::int64_t left = cols - static_cast<std::int64_t>(group) * lane_elements;
    return left <= 0 ? 0 : left < lane_elements ? static_cast<int>(left) : lane_elements;
  }

  __device__ std::uint8_t* codes_of(std::int64_t row) const {
    return args.quantize.codes + row * args.quantize.code_stride +
           column.block * (Format::block * Format::code_bits / 8);
  }
  __device__ std::uint8_t* scales_of(std::int64_t row) const {
    const auto line = static_cast<std::uint64_t>(row);
    const std::uint64_t offset =
        args.tiled ? (line >> 7) * tile_row_bytes + (line & 31) * 16 + (line >> 5 & 3) * 4
                   : line * static_cast<std::uint64_t>(blocks);
    return scales + offset;
  }

  /// Whether a row is one of those that tiled scales are padded with.
  __device__ bool is_padding(std::int64_t row) const {
    return args.tiled && row >= args.quantize.rows && row < ceil_div(args.quantize.rows, 128) * 128;
  }

  /// Codes and scales of a row at their places; `exists`: the row does (if not, it may be padding:
  /// zero scales where they are tiled). All lanes of a warp call it.
  __device__ __forceinline__ void run(const LaneValues& v, bool exists, bool padding,
                                      std::uint8_t* codes, std::uint8_t* scales) const {
    std::uint32_t bytes = 0;  // a scale byte a block
    std::uint32_t words[words_here];
    encode(args.quantize, shared, v, words, bytes);
    bytes = exists ? bytes & scale_mask : 0;
    store_codes(words, exists, codes);
    store_scales(bytes, exists, padding, scales);
  }

  /// The same where FusedArgs::whole.
  __device__ __forceinline__ void run_whole(const LaneValues& v, std::uint8_t* codes,
                                            std::uint8_t* scales) const {
    std::uint32_t bytes, words[words_here];
    if (!encode_finite(v, words, bytes)) {
      RareValues values;
#pragma unroll
      for (int k = 0; k < lane_chunks; ++k) {
        values.low[k] = make_uint4(v[k][0], v[k][1], v[k][2], v[k][3]);
        values.high[k] = make_uint4(v[k][4], v[k][5], v[k][6], v[k][7]);
      }
      const RareCodes codes_of_rare = encode_rare(args.quantize, shared, values);
#pragma unroll
      for (int i = 0; i < words_here; ++i) words[i] = codes_of_rare.words[i];
      bytes = codes_of_rare.bytes;
    }
    if constexpr (Format::code_bits == 8)
      store_codes(words, true, codes);
    else
      ptx::st_global_v4(codes, make_uint4(words[0], words[1], words[2], words[3]));
    const std::uint32_t word = gather_word(bytes);
    if ((threadIdx.x & (scale_lanes - 1)) == 0) ptx::st_global_b32(scales, word);
  }

 private:
  /// Blocks of finite values under a scale that the fast encoder takes; false: none of it done.
  __device__ __forceinline__ bool encode_finite(const LaneValues& v,
                                                std::uint32_t (&words)[words_here],
                                                std::uint32_t& bytes) const {
    if constexpr (Format::searches) return false;
    std::uint32_t told[blocks_here], amax[blocks_here], largest = 0;
#pragma unroll
    for (int b = 0; b < blocks_here; ++b) {
      amax[b] = detail::lane_amax<block_chunks>(v, b * block_chunks);
      largest = max(largest, amax[b]);
    }
    if constexpr (blocks_here == 2) {
      if (largest >= infinity_bits || !shared.ordinary) return false;
      bytes = ptx::cvt_rn_satfinite_e4m3x2_f32(
          __fmul_rn(__uint_as_float(amax[0]), shared.scale_factor),
          __fmul_rn(__uint_as_float(amax[1]), shared.scale_factor));
      told[0] = __float_as_uint(shared.multipliers[bytes & 0xFFu]);
      told[1] = __float_as_uint(shared.multipliers[bytes >> 8]);
    } else {
      if (largest >= infinity_bits) return false;
      bytes = e8m0_byte(args.quantize, largest);
      told[0] = largest == 0 ? 127 : bytes;
    }
#pragma unroll
    for (int k = 0; k < lane_chunks; ++k)
      put_codes(args.quantize, words, k,
                Format::template encode<InputF32>(v[k], told[k / block_chunks]));
    return true;
  }

  __device__ static void put_codes(const QuantizeArgs& args, std::uint32_t (&words)[words_here],
                                   int chunk, typename Format::Codes codes) {
    if (args.zero_is_positive) codes = Format::positive_zeros(codes);
    if constexpr (Format::code_bits == 8)
      words[2 * chunk] = codes.x, words[2 * chunk + 1] = codes.y;
    else
      words[chunk] = codes;
  }

  /// Four scale bytes, in the first lane of each four blocks.
  __device__ static std::uint32_t gather_word(std::uint32_t bytes) {
    bytes |= __shfl_down_sync(0xFFFFFFFFu, bytes, 1) << (32 / scale_lanes);
    if constexpr (scale_lanes == 4) bytes |= __shfl_down_sync(0xFFFFFFFFu, bytes, 2) << 16;
    return bytes;
  }

  /// The scale byte of a block and what its elements are multiplied by.
  __device__ __forceinline__ static std::uint32_t find_scale(const QuantizeArgs& args,
                                                             const Shared& shared,
                                                             const LaneValues& v, int first,
                                                             std::uint32_t amax,
                                                             std::uint32_t& told, bool& special) {
    if constexpr (Format::block == 16 && !Format::searches) {
      if (!shared.ordinary) return find_scale_any(args, shared, v, first, amax, told, special);
      // Infinity converts to the largest scale and NaN to the NaN scale.
      const std::uint32_t code = ptx::cvt_rn_satfinite_e4m3x2_f32(
                                     __fmul_rn(__uint_as_float(amax), shared.scale_factor), 0.0f) &
                                 0x7Fu;
      told = __float_as_uint(shared.multipliers[code]);
      return code;
    } else {
      return find_scale_any(args, shared, v, first, amax, told, special);
    }
  }

  __device__ __forceinline__ static std::uint32_t find_scale_any(
      const QuantizeArgs& args, const Shared& shared, const LaneValues& v, int first,
      std::uint32_t amax, std::uint32_t& told, bool& special) {
    const uint2 plan = Format::plan_any(args, shared, amax);
    told = plan.x;
    std::uint32_t scale = plan.y;
    if constexpr (Format::searches) detail::lane_search(Format{}, shared, v, first, told, scale);
    special |= !Format::template is_plain<InputF32>(shared, told);
    return scale & 0xFFu;
  }

  /// Any values at all: codes and scale bytes.
  __device__ __forceinline__ static void encode(const QuantizeArgs& args, const Shared& shared,
                                                const LaneValues& v,
                                                std::uint32_t (&words)[words_here],
                                                std::uint32_t& bytes) {
    std::uint32_t told[blocks_here], amax[blocks_here], largest = 0;
    bool special = false;
#pragma unroll
    for (int b = 0; b < blocks_here; ++b) {
      amax[b] = detail::lane_amax<block_chunks>(v, b * block_chunks);
      largest = max(largest, amax[b]);
    }
    if (largest >= infinity_bits) {  // infinities alone take the ordinary way
#pragma unroll
      for (int b = 0; b < blocks_here; ++b) {
        if (amax[b] > infinity_bits && !args.nan_propagates) {
          special = true;
          amax[b] = detail::lane_amax_without_nan<block_chunks>(v, b * block_chunks);
        }
        if (Format::block == 16 && !Format::searches && amax[b] >= infinity_bits &&
            is_nan_block(args, amax[b])) {
          special = true;
          amax[b] = 0x7FFFFFFFu;
        }
      }
    }
#pragma unroll
    for (int b = 0; b < blocks_here; ++b)
      bytes |= find_scale(args, shared, v, b * block_chunks, amax[b], told[b], special) << (8 * b);
    typename Format::Codes codes[lane_chunks];
    if (!special) {
#pragma unroll
      for (int k = 0; k < lane_chunks; ++k)
        codes[k] = Format::template encode<InputF32>(v[k], told[k / block_chunks]);
    } else {
#pragma unroll
      for (int k = 0; k < lane_chunks; ++k)
        codes[k] = Format::template encode_any<InputF32>(v[k], told[k / block_chunks]);
    }
#pragma unroll
    for (int k = 0; k < lane_chunks; ++k) put_codes(args, words, k, codes[k]);
  }

  // Not arrays of the types used elsewhere: the compiler would let them share memory with those,
  // which could then live in registers no longer.
  struct RareValues {
    uint4 low[lane_chunks], high[lane_chunks];
  };
  struct RareCodes {
    std::uint32_t words[words_here], bytes;
  };

  /// The same as a function of its own: a kernel that calls it seldom keeps no registers for it.
  __device__ __noinline__ static RareCodes encode_rare(const QuantizeArgs& args, Shared shared,
                                                       const RareValues& values) {
    LaneValues v;
#pragma unroll
    for (int k = 0; k < lane_chunks; ++k) {
      const uint4 low = values.low[k], high = values.high[k];
      v[k][0] = low.x, v[k][1] = low.y, v[k][2] = low.z, v[k][3] = low.w;
      v[k][4] = high.x, v[k][5] = high.y, v[k][6] = high.z, v[k][7] = high.w;
    }
    std::uint32_t words[words_here], bytes = 0;
    encode(args, shared, v, words, bytes);
    RareCodes codes;
#pragma unroll
    for (int i = 0; i < words_here; ++i) codes.words[i] = words[i];
    codes.bytes = bytes;
    return codes;
  }

  __device__ void store_codes(const std::uint32_t (&words)[words_here], bool exists,
                              std::uint8_t* target) const {
    if constexpr (Format::code_bits == 8) {
      // Neighbouring lanes trade halves, so that a store instruction covers memory without gaps.
      const bool odd = threadIdx.x & 1;
      uint4 kept, got;
      got.x = __shfl_xor_sync(0xFFFFFFFFu, odd ? words[0] : words[4], 1);
      got.y = __shfl_xor_sync(0xFFFFFFFFu, odd ? words[1] : words[5], 1);
      got.z = __shfl_xor_sync(0xFFFFFFFFu, odd ? words[2] : words[6], 1);
      got.w = __shfl_xor_sync(0xFFFFFFFFu, odd ? words[3] : words[7], 1);
      kept.x = odd ? words[4] : words[0];
      kept.y = odd ? words[5] : words[1];
      kept.z = odd ? words[6] : words[2];
      kept.w = odd ? words[7] : words[3];
      std::uint8_t* pair = odd ? target - 16 : target;
      const uint4 first = odd ? got : kept, second = odd ? kept : got;
      if (exists && column.even_valid) ptx::st_global_v4(pair, first);
      if (exists && column.odd_valid) ptx::st_global_v4(pair + 32, second);
    } else if (Format::block == lane_elements || wide_rows) {
      if (exists && column.valid != 0)
        ptx::st_global_v4(target, make_uint4(words[0], words[1], words[2], words[3]));
    } else {
      if (exists && column.valid != 0) ptx::st_global_v2(target, words[0], words[1]);
      if (exists && column.valid == lane_elements)
        ptx::st_global_v2(target + 8, words[2], words[3]);
    }
  }

  __device__ void store_scales(std::uint32_t bytes, bool exists, bool padding,
                               std::uint8_t* target) const {
    if (words_of_scales) {
      const std::uint32_t word = gather_word(bytes);
      if (stores_scales && (exists || padding)) ptx::st_global_b32(target, word);
    } else if (exists && stores_scales) {
      target[0] = static_cast<std::uint8_t>(bytes);
      if (blocks_here == 2 && column.valid == lane_elements)
        target[1] = static_cast<std::uint8_t>(bytes >> 8);
    }
  }
};

}  // namespace microscale::cuda
