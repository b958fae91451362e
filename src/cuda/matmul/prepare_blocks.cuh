// Makes few rows of a of NVFP4 ready for the kernels whose weights are unpacked: FP16 elements with
// their scales inside, in the order of cuda/matmul/in_registers/unpacked.cuh. Element 16 t + 8 h +
// 4 i
// + s of a chunk of 64 is to be the one at 16 s + 8 h + 2 t + i. So a lane that has half h of all
// four blocks t of a row's chunk has four pieces of 16 bytes, one for each s, and elements s and s
// + 4 of a word are what shifts bring side by side (decode.cuh).
//
// Blocks begin while the grid in front ends: so addresses come before the wait, what is to be read
// is on its way to the second-level cache, and behind the wait are 140 instructions, a third of
// what prepare_group takes. Where blocks are many it was slower, not understood
// (docs/performance/matmul_gpu.md, 43).
#pragma once

#include <cstdint>

#include "cuda/block/decode.cuh"
#include "cuda/matmul/token_groups.cuh"
#include "cuda/ptx/control.cuh"
#include "cuda/ptx/memory.cuh"
#include "cuda/ptx/packed.cuh"

namespace microscale::cuda {

/// Half a chunk's elements of one row of a group: where they are, and where they go. Warp w has row
/// w, two lanes a chunk.
class LaneBlocks {
 public:
  __device__ LaneBlocks(const PrepareTilesArgs& args, const GroupPlace& at) {
    constexpr auto group_bytes = static_cast<std::uint32_t>(token_tiles::group_bytes),
                   chunk_elements = static_cast<std::uint32_t>(token_tiles::chunk);
    const std::uint32_t in_group = threadIdx.x / 32, row = at.row + in_group,
                        own = at.first_row + row, half = threadIdx.x % 2;
    const auto k = static_cast<std::uint32_t>(args.k);
    const std::uint32_t chunks = k / chunk_elements,
                        chunk = blockIdx.x * (256 * prepare_pieces / chunk_elements) +
                                threadIdx.x % 32 / 2;
    exists_ = chunk < chunks;
    reads_ = exists_ && row < at.rows;
    codes_ = static_cast<const std::uint8_t*>(args.a) + own * args.a_stride + chunk * 32 + half * 4;
    scales_ = args.scales + (args.tiled
                                 ? tiled_128x4::offset(at.scale_rows * 128 + row, chunk * 4, k / 16)
                                 : std::uint64_t{own} * (k / 16) + chunk * 4);
    const std::uint32_t place = (at.first * chunks + chunk * at.count + at.row / 8) *
                                    static_cast<std::uint32_t>(args.group_step) +
                                static_cast<std::uint32_t>(args.group_first);
    to_ = static_cast<char*>(args.tiles) + std::uint64_t{place} * group_bytes + in_group * 128;
    piece_ = (half ^ in_group) * 16;
  }

  /// Brings what is to be read to the second-level cache.
  __device__ void prefetch() const {
    if (!reads_) return;
    ptx::prefetch_global_l2(codes_);
    ptx::prefetch_global_l2(scales_);
  }

  __device__ void prepare() const {
    std::uint32_t words[4] = {}, scales[4] = {};
    if (reads_)
#pragma unroll
      for (int t = 0; t < 4; ++t) {
        words[t] = ptx::ld_global_nc_b32(codes_ + 8 * t);
        scales[t] = __ldg(scales_ + t);
      }
    NibbleHalves elements[4];
#pragma unroll
    for (int t = 0; t < 4; ++t) {
      constexpr std::uint32_t power = 0x74007400u;  // 2^14
      static_assert(e2m1_bits_bias == 14);
      const std::uint32_t factor = ptx::cvt_rn_f16x2_e4m3x2(scales[t] * 0x101u & 0x7F7Fu);
      elements[t] = nibble_halves(words[t]);
#pragma unroll
      for (std::uint32_t& pair : elements[t].n)
        pair = ptx::mul_rn_f16x2(ptx::mul_rn_f16x2(pair, power), factor);
    }
    if (!exists_) return;
#pragma unroll
    for (int s = 0; s < 4; ++s)
      ptx::st_global_v4(to_ + (piece_ ^ 32 * s), make_uint4(elements[0].n[s], elements[1].n[s],
                                                            elements[2].n[s], elements[3].n[s]));
  }

 private:
  const std::uint8_t *codes_, *scales_;  // of block 0
  char* to_;                             // the row's
  std::uint32_t piece_;                  // where s is 0
  bool exists_, reads_;
};

__device__ inline void prepare_by_blocks(const PrepareTilesArgs& args) {
  const auto m = static_cast<std::uint32_t>(args.rows.m),
             matrices = static_cast<std::uint32_t>(args.rows.matrices);
  std::uint32_t group = blockIdx.y;
  ptx::griddepcontrol_launch_dependents();
  if (args.rows.expert_rows != nullptr) {
    ptx::griddepcontrol_wait();
#pragma unroll 1
    for (; group < (m + 7) / 8 + matrices; group += gridDim.y)
      if (const TokenGroup found = find_token_group(args.rows, group, args.tiled); found.found)
        LaneBlocks(args, expert_group(found)).prepare();
    return;
  }
  LaneBlocks own(args, batch_group(args.rows, group, args.tiled));
  own.prefetch();
  ptx::griddepcontrol_wait();
#pragma unroll 1
  for (;;) {
    own.prepare();
    group += gridDim.y;
    if (group >= (m + 7) / 8 * matrices) return;
    own = LaneBlocks(args, batch_group(args.rows, group, args.tiled));
  }
}

}  // namespace microscale::cuda
