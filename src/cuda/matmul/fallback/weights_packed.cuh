// Weights as pack_weights leaves them (layouts/fragment_tiles.hpp), a lane's share of 64 columns.
#pragma once

#include <cstdint>

#include "cuda/block/decode.cuh"
#include "cuda/matmul/args.hpp"
#include "cuda/matmul/in_registers/weights.cuh"
#include "cuda/ptx/memory.cuh"
#include "layouts/fragment_tiles.hpp"

namespace microscale::cuda {

/// Where a lane reads: its part of the first tile of a row of tiles.
template <int CodeBits, int Block>
struct PackedSource {
  static constexpr int tile = static_cast<int>(fragment_tiles::tile_bytes(CodeBits, Block));
  static constexpr int codes = static_cast<int>(fragment_tiles::code_bytes(CodeBits));
  const std::uint8_t* first;
  std::uint32_t lane;

  __device__ PackedSource(const MatmulRowsArgs& args, std::int64_t matrix, std::int64_t row_tile)
      : first(args.b + matrix * args.b_matrix +
              row_tile * fragment_tiles::col_tiles(args.k) * tile),
        lane(threadIdx.x & 31) {}
  __device__ const std::uint8_t* at(std::int64_t chunk) const { return first + chunk * tile; }
};

struct PackedNvfp4 {
  static constexpr bool scales_follow = false;  // they are in the fragments
  static constexpr int columns = 64;
  static constexpr int exponent_bias = e2m1_bits_bias - placed_scale_bias;
  using Source = PackedSource<4, 16>;
  uint4 codes;
  uint2 scales;  // rows g and g + 8 of blocks 0 to 3

  __device__ static PackedNvfp4 load(const Source& source, std::int64_t chunk) {
    const std::uint8_t* tile = source.at(chunk);
    return {ptx::ld_global_nc_no_allocate_v4(tile + 16 * source.lane),
            ptx::ld_global_nc_v2(tile + Source::codes + 8 * (source.lane / 4))};
  }
  /// Of a tile in shared memory.
  __device__ static PackedNvfp4 read(std::uint32_t tile, std::uint32_t lane) {
    return {ptx::ld_shared_v4(tile + 16 * lane),
            ptx::ld_shared_v2(tile + Source::codes + 8 * (lane / 4))};
  }
  /// Instruction `step` of 4.
  __device__ void fragment(int step, std::uint32_t (&a)[4]) const {
    in_registers::Nvfp4F16Weights::fragment({codes, scales}, step, a);
  }
};

/// The same for rows of BF16, which are multiplied as they are.
struct PackedNvfp4Bf16 : PackedNvfp4 {
  static constexpr bool bf16 = true;

  __device__ static PackedNvfp4Bf16 read(std::uint32_t tile, std::uint32_t lane) {
    return {PackedNvfp4::read(tile, lane)};
  }
  __device__ void fragment(int step, std::uint32_t (&a)[4]) const {
    in_registers::Nvfp4Weights::fragment({codes, scales}, step, a);
  }
};

struct PackedMxfp4 {
  static constexpr bool scales_follow = true;
  static constexpr int columns = 64;
  static constexpr int exponent_bias = e2m1_bits_bias;
  using Source = PackedSource<4, 32>;
  uint4 codes;
  std::uint32_t scales;  // rows g and g + 8 of blocks 0 and 1

  __device__ static PackedMxfp4 load(const Source& source, std::int64_t chunk) {
    const std::uint8_t* tile = source.at(chunk);
    return {ptx::ld_global_nc_no_allocate_v4(tile + 16 * source.lane),
            ptx::ld_global_nc_b32(tile + Source::codes + 4 * (source.lane / 4))};
  }
  __device__ static PackedMxfp4 read(std::uint32_t tile, std::uint32_t lane) {
    return {ptx::ld_shared_v4(tile + 16 * lane),
            ptx::ld_shared_b32(tile + Source::codes + 4 * (lane / 4))};
  }
  __device__ void fragment(int step, std::uint32_t (&a)[4]) const {
    const std::uint32_t words[4] = {codes.x, codes.y, codes.z, codes.w};
    e2m1_of_packed(words[step], a);
  }
  /// Of block 0 or 1.
  __device__ RowScales row_scales(int block) const { return e8m0_scales(scales >> 16 * block); }
};

/// The same for rows of BF16, scales in the operands.
struct PackedMxfp4Bf16 {
  static constexpr bool bf16 = true, scales_follow = false;
  static constexpr int columns = 64;
  static constexpr int exponent_bias = 0;
  using Source = PackedMxfp4::Source;
  in_registers::Mxfp4Weights::Tile tile;
  bool special;  // of the whole warp

  __device__ static PackedMxfp4Bf16 read(std::uint32_t tile, std::uint32_t lane) {
    const in_registers::Mxfp4Weights::Tile t =
        in_registers::Mxfp4Weights::read(tile + in_registers::Mxfp4Weights::codes_of(lane),
                                         tile + in_registers::Mxfp4Weights::scales_of(lane));
    return {t, in_registers::Mxfp4Weights::is_special(t)};
  }
  /// Instructions `first` and the next: one branch for both.
  __device__ void fragments(int first, std::uint32_t (&a)[2][4]) const {
    in_registers::Mxfp4Weights::quick_fragment(tile, first, a[0]);
    in_registers::Mxfp4Weights::quick_fragment(tile, first + 1, a[1]);
    if (special) {
      in_registers::Mxfp4Weights::fragment(tile, first, a[0]);
      in_registers::Mxfp4Weights::fragment(tile, first + 1, a[1]);
    }
  }
};

template <class Codec>
struct PackedMxfp8 {
  static constexpr bool scales_follow = true;
  static constexpr int columns = 64;
  static constexpr int exponent_bias = 0;
  using Source = PackedSource<8, 32>;
  uint4 codes[2];  // of two instructions each
  std::uint32_t scales;

  __device__ static PackedMxfp8 load(const Source& source, std::int64_t chunk) {
    const std::uint8_t* tile = source.at(chunk);
    return {{ptx::ld_global_nc_no_allocate_v4(tile + 16 * source.lane),
             ptx::ld_global_nc_no_allocate_v4(tile + 512 + 16 * source.lane)},
            ptx::ld_global_nc_b32(tile + Source::codes + 4 * (source.lane / 4))};
  }
  __device__ static PackedMxfp8 read(std::uint32_t tile, std::uint32_t lane) {
    return {{ptx::ld_shared_v4(tile + 16 * lane), ptx::ld_shared_v4(tile + 512 + 16 * lane)},
            ptx::ld_shared_b32(tile + Source::codes + 4 * (lane / 4))};
  }
  __device__ void fragment(int step, std::uint32_t (&a)[4]) const {
    const uint4 both = codes[step / 2];
    const std::uint32_t low = step % 2 ? both.z : both.x, high = step % 2 ? both.w : both.y;
    a[0] = cvt_f16x2<Codec>(low & 0xFFFFu);
    a[1] = cvt_f16x2<Codec>(low >> 16);
    a[2] = cvt_f16x2<Codec>(high & 0xFFFFu);
    a[3] = cvt_f16x2<Codec>(high >> 16);
  }
  __device__ RowScales row_scales(int block) const { return e8m0_scales(scales >> 16 * block); }
};

}  // namespace microscale::cuda
