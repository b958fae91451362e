// Scores of attention by block-scaled matrix instructions: q in a warp's registers, keys in shared
// memory and in their natural order in memory.
//
// A tile has 64 keys, and scores come in 8 columns of 8 keys. Which key is which column is free, so
// it is chosen for what follows: column 2 t + i of eight j is key
//
//   32 (j / 4) + 8 t + 2 (j % 4) + i
//
// and a lane has 8 keys in a row, in the order in which the second product takes probabilities.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "cuda/attention/block_scaled/args.hpp"
#include "cuda/ptx/async_copy.cuh"
#include "cuda/ptx/memory.cuh"
#include "cuda/ptx/mma.cuh"

namespace microscale::cuda::attention::block_scaled {

/// fn(std::integral_constant<int, 0>{}), ..., fn(std::integral_constant<int, Count - 1>{}): a loop
/// whose index may be a template argument.
template <int Count, class Function>
__device__ __forceinline__ void for_each_index(Function&& fn) {
  [&]<int... I>(std::integer_sequence<int, I...>) { (fn(std::integral_constant<int, I>{}), ...); }
  (std::make_integer_sequence<int, Count>{});
}

// A pair of formats: bits of a code of q and of k, elements of a block, and its instruction on 32
// bytes of q; Step is which of a row's.
struct Nvfp4Keys {
  static constexpr int q_bits = 4, k_bits = 4, block = 16;
  template <int Step, int Lane>
  __device__ static void multiply(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                  std::uint32_t b1, const std::uint32_t* scale_a,
                                  const std::uint32_t* scale_b) {
    ptx::mma_m16n8k64_mxf4nvf4_4x_ue4m3<0, Lane>(d, a, b0, b1, scale_a[Step], scale_b[Step]);
  }
};
struct Mxfp4Keys {
  static constexpr int q_bits = 4, k_bits = 4, block = 32;
  template <int Step, int Lane>
  __device__ static void multiply(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                  std::uint32_t b1, const std::uint32_t* scale_a,
                                  const std::uint32_t* scale_b) {
    ptx::mma_m16n8k64_mxf4nvf4_2x_ue8m0<Step % 2 * 2, Lane>(d, a, b0, b1, scale_a[Step / 2],
                                                            scale_b[Step / 2]);
  }
};
struct Mxfp8Keys {
  static constexpr int q_bits = 8, k_bits = 8, block = 32;
  template <int Step, int Lane>
  __device__ static void multiply(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                  std::uint32_t b1, const std::uint32_t* scale_a,
                                  const std::uint32_t* scale_b) {
    ptx::mma_m16n8k32_mxf8f6f4_e4m3_e4m3<Step % 4, Lane>(d, a, b0, b1, scale_a[Step / 4],
                                                         scale_b[Step / 4]);
  }
};
/// q in MXFP8 (E4M3), k in MXFP4.
struct MixedKeys {
  static constexpr int q_bits = 8, k_bits = 4, block = 32;
  template <int Step, int Lane>
  __device__ static void multiply(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                  std::uint32_t b1, const std::uint32_t* scale_a,
                                  const std::uint32_t* scale_b) {
    ptx::mma_m16n8k32_mxf8f6f4_e4m3_e2m1<Step % 4, Lane>(d, a, b0, b1, scale_a[Step / 4],
                                                         scale_b[Step / 4]);
  }
};

/// Where things of a row of d are.
template <class Pair, int D>
struct KeyShape {
  static constexpr int row_bytes = D * Pair::q_bits / 8;  // of q, and of a key in shared memory
  static constexpr int memory_bytes = D * Pair::k_bits / 8;
  static constexpr int steps = row_bytes / 32;
  static constexpr int chunks = row_bytes / 16;
  static constexpr int scales = D / Pair::block;
  static constexpr int words = (scales + 3) / 4;
  /// Codes of 4 bits for FP8's instruction: 16 elements in the first 8 bytes of every 16.
  static constexpr bool spread = Pair::q_bits != Pair::k_bits;

  /// Byte of 16-byte chunk `chunk` of key `row` of a tile, such that the eight rows 8 a + 2 j + i
  /// (a to 3, i to 1) that ldmatrix reads at a time lie in different banks.
  __device__ static std::uint32_t at(std::uint32_t row, std::uint32_t chunk) {
    const std::uint32_t eight = row >> 3 & 3;
    if constexpr (chunks == 2) return (row ^ (eight & 1) << 1) * 32 + ((chunk ^ eight >> 1) << 4);
    if constexpr (chunks == 4) return row * 64 + ((chunk ^ eight) << 4);
    return row * row_bytes + ((chunk ^ (eight << 1 | (row & 1))) << 4);
  }
};

/// `count` (1, 2, 4, 8, 16) bytes, aligned to as many up to 4, as words with zeros above.
template <int Count, int Words>
__device__ inline void load_scales(const std::uint8_t* from, std::uint32_t (&words)[Words]) {
  if constexpr (Count == 2) {
    words[0] = *reinterpret_cast<const std::uint16_t*>(from);
  } else {
    static_assert(Count % 4 == 0);
#pragma unroll
    for (int i = 0; i < Words; ++i) words[i] = ptx::ld_global_nc_b32(from + 4 * i);
  }
}

/// 16 rows of q, the first operand, in one or two terms: in shared memory, codes and scales as
/// registers take them, 16 and 4 bytes a lane.
template <class Pair, int D, int Terms>
struct Query {
  using Shape = KeyShape<Pair, D>;
  static constexpr int code_bytes = Terms * Shape::steps * 512;
  static constexpr int bytes = code_bytes + Terms * Shape::words * 128;
  std::uint32_t at;  // shared address

  /// `row` and `row_8`: this lane's rows g and g + 8, in memory. `flip`: every sign changes. `to`:
  /// the shared address of these rows.
  __device__ void load(const Args& args, std::int64_t row, std::int64_t row_8, int lane, bool flip,
                       std::uint32_t to) {
    const std::uint32_t signs = !flip ? 0u : Pair::q_bits == 4 ? 0x88888888u : 0x80808080u;
    at = to;
#pragma unroll
    for (int term = 0; term < Terms; ++term) {
      const bool present = args.q_codes[term] != nullptr;
#pragma unroll
      for (int step = 0; step < Shape::steps; ++step) {
        std::uint32_t codes[4] = {};
#pragma unroll
        for (int r = 0; r < 4; ++r) {
          const std::int64_t from =
              (r % 2 ? row_8 : row) * Shape::row_bytes + 32 * step + 16 * (r / 2) + 4 * (lane % 4);
          if (present) codes[r] = ptx::ld_global_nc_b32(args.q_codes[term] + from) ^ signs;
        }
        ptx::st_shared_v4(at + (term * Shape::steps + step) * 512 + 16 * lane,
                          make_uint4(codes[0], codes[1], codes[2], codes[3]));
      }
      std::uint32_t words[Shape::words] = {};
      if (present)
        load_scales<Shape::scales>(args.q_scales[term] + (lane % 2 ? row_8 : row) * Shape::scales,
                                   words);
#pragma unroll
      for (int i = 0; i < Shape::words; ++i)
        ptx::st_shared_b32(at + code_bytes + (term * Shape::words + i) * 128 + 4 * lane, words[i]);
    }
  }
  __device__ void codes(int lane, int term, int step, std::uint32_t (&a)[4]) const {
    const uint4 v = ptx::ld_shared_v4(at + (term * Shape::steps + step) * 512 + 16 * lane);
    a[0] = v.x, a[1] = v.y, a[2] = v.z, a[3] = v.w;
  }
  __device__ std::uint32_t scales(int lane, int term, int word) const {
    return ptx::ld_shared_b32(at + code_bytes + (term * Shape::words + word) * 128 + 4 * lane);
  }
};

/// Scales of the keys whose columns a lane supplies: of eights j with j % 4 = t, column g.
template <class Pair, int D>
struct KeyScales {
  using Shape = KeyShape<Pair, D>;
  std::uint32_t words[2][Shape::words];  // of the halves of a tile

  __device__ static int key(int lane, int half) {
    return 32 * half + 8 * (lane >> 3) + 2 * (lane & 3) + (lane >> 2 & 1);
  }
  template <class PlaceOf>
  __device__ void load(int lane, PlaceOf&& place_of) {
#pragma unroll
    for (int half = 0; half < 2; ++half)
      load_scales<Shape::scales>(place_of(key(lane, half)), words[half]);
  }
};

/// Codes of a tile's keys to shared memory; place_of(key): where a key's codes are.
template <class Pair, int D, int Threads, class PlaceOf>
__device__ inline void copy_keys(std::uint32_t to, int thread, PlaceOf&& place_of) {
  using Shape = KeyShape<Pair, D>;
  constexpr int piece = Shape::spread ? 8 : 16, pieces = Shape::memory_bytes / piece;
#pragma unroll
  for (int i = 0; i < tile_keys * pieces / Threads; ++i) {
    const int row = thread / pieces + i * (Threads / pieces), chunk = thread % pieces;
    const std::uint8_t* from = place_of(row) + chunk * piece;
    const std::uint32_t at =
        to + Shape::at(static_cast<std::uint32_t>(row), static_cast<std::uint32_t>(chunk));
    if constexpr (Shape::spread)
      ptx::cp_async_ca_shared_global_8(at, from, 8);
    else
      ptx::cp_async_cg_shared_global_16(at, from);
  }
}

/// What a lane names to ldmatrix, without the tile's address: keys of two eights, first step.
template <class Pair, int D>
__device__ inline std::uint32_t key_fragment(int lane) {
  const auto matrix = static_cast<std::uint32_t>(lane / 8),
             row = static_cast<std::uint32_t>(lane % 8);
  return KeyShape<Pair, D>::at(8 * (row / 2) + 2 * (matrix / 2) + row % 2, matrix % 2);
}

/// s = q k of `Eights` columns of eight keys, from eight `First` of the tile at `keys` on.
template <class Pair, int D, int Terms, int Rows, int Eights, int First>
__device__ inline void scores(float (&s)[Rows][Eights][4], const Query<Pair, D, Terms> (&q)[Rows],
                              const KeyScales<Pair, D>& scales, std::uint32_t keys,
                              std::uint32_t fragment, int lane) {
  using Shape = KeyShape<Pair, D>;
#pragma unroll
  for (int m = 0; m < Rows; ++m)
#pragma unroll
    for (int j = 0; j < Eights; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) s[m][j][i] = 0.0f;
  std::uint32_t q_scales[Rows][Terms][Shape::words];
  for_each_index<Shape::steps>([&](auto step) {
    if constexpr (constexpr int at = step.value * Shape::words; at % Shape::steps == 0)
#pragma unroll
      for (int m = 0; m < Rows; ++m)
#pragma unroll
        for (int term = 0; term < Terms; ++term)
          q_scales[m][term][at / Shape::steps] = q[m].scales(lane, term, at / Shape::steps);
    const std::uint32_t from = keys + (fragment ^ static_cast<std::uint32_t>(step.value) << 5);
    std::uint32_t a[Rows][Terms][4];
#pragma unroll
    for (int m = 0; m < Rows; ++m)
#pragma unroll
      for (int term = 0; term < Terms; ++term) q[m].codes(lane, term, step.value, a[m][term]);
    for_each_index<Eights / 2>([&](auto pair) {
      constexpr int j = 2 * pair.value, eight = First + j, half = eight / 4;
      std::uint32_t b[4];
      constexpr auto offset =
          static_cast<std::uint32_t>((32 * half + 2 * (eight % 4)) * Shape::row_bytes);
      if constexpr (Shape::spread) {
        ptx::ldmatrix_m8n16_x4_b8x16_b4x16_p64(b, from + offset);
#pragma unroll
        for (std::uint32_t& each : b) each <<= 2;  // to bits 5-2
      } else {
        ptx::ldmatrix_m8n8_x4_b16(b, from + offset);
      }
#pragma unroll
      for (int m = 0; m < Rows; ++m)
#pragma unroll
        for (int term = 0; term < Terms; ++term) {
          const std::uint32_t* const own = q_scales[m][term];
          Pair::template multiply<step.value, eight % 4>(s[m][j], a[m][term], b[0], b[1], own,
                                                         scales.words[half]);
          Pair::template multiply<step.value, eight % 4 + 1>(s[m][j + 1], a[m][term], b[2], b[3],
                                                             own, scales.words[half]);
        }
    });
  });
}

}  // namespace microscale::cuda::attention::block_scaled
