// What a warp of tile/matmul_stream.cuh does with plain NVFP4 weights and one row of a: copies of
// 16 rows of 256 columns, and the products of tile/matmul_line.cuh. k is a multiple of 256; not
// gated.
#pragma once

#include <cstdint>

#include "cuda/ptx/async_copy.cuh"
#include "cuda/ptx/memory.cuh"
#include "cuda/stream_geometry.hpp"
#include "cuda/tile/matmul_line.cuh"
#include "cuda/tile/stream_units.cuh"
#include "layouts/tiled_128x4.hpp"

namespace microscale::cuda {

class StreamLine {
 public:
  using Line = LineFp4<16>;
  /// The sums of rows g and g + 8; the end is that of any product of few rows.
  struct Product : RowsProduct<Line, false, 1> {
    using RowsProduct<Line, false, 1>::RowsProduct;
    float own[2] = {};
  };
  static constexpr StreamKind kind = stream_line();
  static constexpr int arrivals =
      32;  // at a stage's barrier: every lane, when its copies are there
  static constexpr FragmentOrder order = FragmentOrder::fp4_lines;

  __device__ StreamLine(const MatmulStreamArgs& args, std::uint32_t lane)
      : args_(args.product), lane_(lane) {}

  __device__ void aim(std::int64_t matrix, std::uint32_t row_tile, int chunk) {
    const std::int64_t first = std::int64_t{row_tile} * 16, blocks = args_.k / 16;
    const auto row = [&](std::uint32_t i) {  // beyond the last: the last
      return first + i < args_.n ? first + i : args_.n - 1;
    };
#pragma unroll
    for (int i = 0; i < 2; ++i)
      codes_[i] = args_.b + matrix * args_.b_matrix + row(lane_ / 4 + 8 * i) * (args_.k / 2) +
                  chunk * code_step + 16 * (lane_ % 4);
    const std::int64_t block = chunk * 16 + lane_ % 2 * 8, own = row(lane_ / 2);
    scales_ = args_.b_scales + matrix * args_.b_scale_matrix +
              (args_.tiled != 0 ? tiled_128x4::offset(own, block, blocks) : own * blocks + block);
  }
  /// Codes that this lane will read itself, and scales of eight blocks of one row.
  __device__ void copy(int, std::uint32_t to, std::uint32_t barrier) {
    const std::uint32_t own = to + lane_ / 4 * code_step + 16 * (lane_ % 4);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      ptx::cp_async_cg_shared_global_16(own + i * 8 * code_step, codes_[i]);
      ptx::cp_async_cg_shared_global_16(own + i * 8 * code_step + 64, codes_[i] + 64);
      codes_[i] += code_step;
    }
    const std::uint32_t scales = to + scales_at + 8 * lane_;
    const bool tiled = args_.tiled != 0;
    ptx::cp_async_ca_shared_global_4(scales, scales_);
    ptx::cp_async_ca_shared_global_4(scales + 4, scales_ + (tiled ? tiled_128x4::tile_bytes : 4));
    scales_ += tiled ? 4 * tiled_128x4::tile_bytes : 16;
    ptx::cp_async_mbarrier_arrive_noinc(barrier);
  }

  __device__ void begin(std::uint32_t units, std::uint32_t, int) {
    const int t = static_cast<int>(lane_) % 4, part = static_cast<int>(lane_) / 4 - 2 * t;
    units_ = units + 16 * t + 128 * part;
    part_ = part;
  }

  struct Chunk {
    LineProduct<Line, false>::Chunk halves[2];  // of 128 columns
  };
  __device__ Chunk read(std::uint32_t stage, int, int chunk) const {
    const std::uint32_t g = lane_ / 4, t = lane_ % 4;
    Chunk c{};
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::uint32_t codes = stage + g * code_step + half * 64 + 16 * t,
                          scales = stage + scales_at + g * 16 + half * 8 + 2 * t;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        c.halves[half].weights.codes[i] = ptx::ld_shared_v4(codes + i * 8 * code_step);
        c.halves[half].weights.scales[i] = ptx::ld_shared_u16(scales + i * 128);
      }
#pragma unroll
      for (int part = 0; part < 2; ++part)
        if (part_ == part) {
          const std::uint32_t at = units_ + chunk * kind.units_bytes + half * 256;
          c.halves[half].units[part][0] = ptx::ld_shared_v4(at);
          c.halves[half].units[part][1] = ptx::ld_shared_v4(at + 64);
        }
    }
    return c;
  }
  __device__ void multiply(Product& product, const Chunk& c) const {
    LineProduct<Line, false>::multiply(c.halves[0], product.own);
    LineProduct<Line, false>::multiply(c.halves[1], product.own);
  }

  __device__ void put_sums(Product& product, std::uint32_t to) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float sum = sum_of_four(product.own[i]);
      if (lane_ % 4 == 0) ptx::st_shared_f32(to + 32 * i + lane_, sum);
      product.own[i] = 0.0f;
    }
  }

  __device__ static StreamSum sum(std::uint32_t e) { return {4 * e, 4 * e + 32, 0, e}; }

 private:
  static constexpr int code_step = 128, scales_at = 16 * code_step;

  const MatmulRowsArgs& args_;
  const std::uint32_t lane_;
  const std::uint8_t *codes_[2]{}, *scales_ = nullptr;
  std::uint32_t units_ = 0;
  int part_ = 0;
};

}  // namespace microscale::cuda
