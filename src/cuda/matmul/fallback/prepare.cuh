// Makes a ready for the products of few rows: FP16 units that the lanes of a warp read as they are.
// Thread blocks (x, 0), (x, 1), ... share row x: its pieces of four units, one a thread and turn.
#pragma once

#include <cstdint>

#include "cuda/matmul/fragment_order.hpp"
#include "cuda/matmul/args.hpp"
#include "cuda/block/block_scale.cuh"
#include "cuda/block/decode.cuh"
#include "cuda/matmul/product_output.cuh"
#include "layouts/grouped.hpp"
#include "layouts/tiled_128x4.hpp"

namespace microscale::cuda {

inline constexpr int prepare_threads = 256;

/// A row of a among those of its matrix.
struct RowPlace {
  std::int64_t row;                 // of the matrix
  std::int64_t scale_tiles_before;  // rows of 128x4 tiles of the matrices in front
  bool found;
};

/// All threads of the block call it.
__device__ inline RowPlace place_of_row(const ProductRows& rows, std::int64_t row) {
  if (rows.expert_rows == nullptr) {  // a thread block a row: fewer than 2^31
    const std::uint32_t each = static_cast<std::uint32_t>(rows.m),
                        matrix = static_cast<std::uint32_t>(row) / each;
    return {static_cast<std::uint32_t>(row) - matrix * each,
            matrix * grouped::tile_rows(rows.m, tiled_128x4::tile_lines), true};
  }
  __shared__ unsigned long long before;
  __shared__ unsigned int owner;  // the first expert whose row it is
  if (threadIdx.x == 0) before = 0, owner = 0xFFFFFFFFu;
  __syncthreads();
  for (std::int64_t e = threadIdx.x; e < rows.matrices; e += prepare_threads) {
    const MatrixRows own = rows_of_matrix(rows, e);
    if (row >= own.first && row < own.first + own.count)
      atomicMin(&owner, static_cast<unsigned int>(e));
  }
  __syncthreads();
  const std::int64_t expert = owner;
  if (expert >= rows.matrices) return {0, 0, false};
  std::int64_t tiles = 0;
  for (std::int64_t e = threadIdx.x; e < expert; e += prepare_threads)
    tiles += scale_tile_rows(rows, rows_of_matrix(rows, e));
  if (tiles > 0) atomicAdd(&before, static_cast<unsigned long long>(tiles));  // integers: any order
  __syncthreads();
  const MatrixRows own = rows_of_matrix(rows, expert);
  return {row - own.first, scale_tiles_before(rows, own, static_cast<std::int64_t>(before)), true};
}

/// One row of a, block-scaled.
struct BlockRow {
  const std::uint8_t *codes, *scales;
  std::int64_t row, blocks;
  bool tiled;

  __device__ std::uint32_t scale(std::int64_t block) const {
    return scales[tiled ? tiled_128x4::offset(row, block, blocks) : block];
  }
};

__device__ inline std::uint32_t e2m1_half(const BlockRow& a, std::int64_t i, float scale) {
  const auto code = static_cast<std::uint8_t>(a.codes[i / 2] >> (i % 2 * 4) & 15);
  return ptx::cvt_rn_f16x2_f32(__fmul_rn(E2M1::decode(code), scale), 0.0f);
}

// What an element becomes: unit(i), the FP16 bits; block_scale(b), of MX blocks.
struct Nvfp4Units : BlockRow {
  static constexpr int block = 16;
  static constexpr bool scaled = false;
  __device__ std::uint32_t unit(std::int64_t i) const {  // six significant bits: exact
    return e2m1_half(*this, i, decode_e4m3(scale(i / block) & 0x7Fu));
  }
};
struct Mxfp4Units : BlockRow {
  static constexpr int block = 32;
  static constexpr bool scaled = true;
  __device__ std::uint32_t unit(std::int64_t i) const { return e2m1_half(*this, i, 1.0f); }
};
template <class Codec>
struct Mxfp8Units : BlockRow {
  static constexpr int block = 32;
  static constexpr bool scaled = true;
  __device__ std::uint32_t unit(std::int64_t i) const { return cvt_f16x2<Codec>(codes[i]); }
};
struct DenseUnits {
  const std::uint16_t* elements;
};
struct F16Units : DenseUnits {
  static constexpr int block = 1;
  static constexpr bool scaled = false;
  __device__ std::uint32_t unit(std::int64_t i) const { return elements[i]; }
};
/// Times a power of two that brings the row's largest finite magnitude into [2^15, 2^16): elements
/// down to 2^-32 of it stay exact, smaller ones move by at most 2^-41 of it.
struct Bf16Units : DenseUnits {
  static constexpr int block = 1;
  static constexpr bool scaled = false;
  float first, second;  // both factors together: 2^-134 to 2^148 is more than FP32 has
  __device__ std::uint32_t unit(std::int64_t i) const {
    const float x = __uint_as_float(static_cast<std::uint32_t>(elements[i]) << 16);
    return ptx::cvt_rn_f16x2_f32(__fmul_rn(__fmul_rn(x, first), second), 0.0f);
  }
};

/// The exponent of the power of two that brings a row of BF16 whose largest finite magnitude has
/// these bits into FP16's range; 0 for a row of zeros.
__device__ inline int power_to_f16(unsigned int largest) {
  return largest == 0 ? 0 : 15 - split(__uint_as_float(largest << 16)).exponent;
}

/// The bits of the row's largest finite magnitude. All threads call it.
__device__ inline unsigned int largest_magnitude(const std::uint16_t* elements, std::int64_t k) {
  __shared__ unsigned int largest;
  if (threadIdx.x == 0) largest = 0;
  __syncthreads();
  unsigned int mine = 0;
  const auto take = [&](std::uint32_t element) {
    const unsigned int magnitude = element & 0x7FFFu;
    if (magnitude < 0x7F80u) mine = max(mine, magnitude);
  };
  if (reinterpret_cast<std::uintptr_t>(elements) % 16 == 0 && k % 8 == 0) {
    const auto* eights = reinterpret_cast<const uint4*>(elements);
#pragma unroll 4
    for (std::int64_t i = threadIdx.x; i < k / 8; i += prepare_threads) {
      const uint4 eight = __ldg(eights + i);
      for (const std::uint32_t pair : {eight.x, eight.y, eight.z, eight.w})
        take(pair), take(pair >> 16);
    }
  } else {
    for (std::int64_t i = threadIdx.x; i < k; i += prepare_threads) take(elements[i]);
  }
  mine = __reduce_max_sync(0xFFFFFFFFu, mine);
  if (threadIdx.x % 32 == 0) atomicMax(&largest, mine);
  __syncthreads();
  return largest;
}

template <class Units>
__device__ void write_units(const PrepareRowsArgs& args, const Units& units, std::int64_t row) {
  auto* to = static_cast<unsigned char*>(args.units) + row * args.units_stride;
  const auto order = static_cast<FragmentOrder>(args.order);
  const std::int64_t pieces = args.units_stride / 8;  // of four units
  for (std::int64_t piece = blockIdx.y * std::int64_t{prepare_threads} + threadIdx.x;
       piece < pieces; piece += std::int64_t{gridDim.y} * prepare_threads) {
    const std::int64_t step = piece / 4;
    const int t = static_cast<int>(piece % 4), in_group = static_cast<int>(step % 8);
    std::uint32_t halves[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const std::int64_t at = step / 8 * unit_columns + fragment_element(order, in_group, t, i);
      halves[i] = at < args.k ? units.unit(at) & 0xFFFFu : 0u;
    }
    *reinterpret_cast<uint2*>(to + unit_byte(step, t)) =
        make_uint2(halves[0] | halves[1] << 16, halves[2] | halves[3] << 16);
  }
}

/// Units: what is made of a.
template <class Units>
__device__ void prepare_row(const PrepareRowsArgs& args) {
  const std::int64_t row = blockIdx.x;
  const RowPlace place = place_of_row(args.rows, row);
  if (!place.found) return;
  const auto* source = static_cast<const std::uint8_t*>(args.a) + row * args.a_stride;
  if constexpr (Units::block == 1) {
    Units units{};
    units.elements = reinterpret_cast<const std::uint16_t*>(source);
    if constexpr (requires { units.first; }) {
      const int power = power_to_f16(largest_magnitude(units.elements, args.k));
      units.first = power_of_two(power / 2);
      units.second = power_of_two(power - power / 2);
      if (threadIdx.x == 0 && blockIdx.y == 0)
        args.row_factors[row] =
            __fmul_rn(power_of_two(-(power / 2)), power_of_two(power / 2 - power));
    }
    write_units(args, units, row);
  } else {
    Units units{};
    units.codes = source;
    units.blocks = args.k / Units::block;
    units.tiled = args.tiled != 0;
    units.row = place.row;
    units.scales =
        args.scales + (units.tiled ? place.scale_tiles_before *
                                         tiled_128x4::bytes(tiled_128x4::tile_lines, units.blocks)
                                   : row * units.blocks);
    write_units(args, units, row);
    if constexpr (Units::scaled)
#pragma unroll 1
      for (std::int64_t b = blockIdx.y * std::int64_t{prepare_threads} + threadIdx.x;
           b < units.blocks; b += std::int64_t{gridDim.y} * prepare_threads)
        args.block_scales[row * units.blocks + b] =
            decode_e8m0(static_cast<std::uint8_t>(units.scale(b)));
  }
}

}  // namespace microscale::cuda
