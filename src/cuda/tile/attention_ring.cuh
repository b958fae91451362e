// A warp's ring of chunks of a cache: 16 tokens of K and V with their scales, brought to shared
// memory without a register in between, some chunks ahead of what is computed.
#pragma once

#include <cstdint>

#include "cuda/attention_decode_args.hpp"
#include "cuda/ptx/async_copy.cuh"

namespace microscale::cuda {

/// Chunks first, first + step, ... of one sequence and head; zeros where the sequence or the cache
/// has no token.
template <int D, int Block>
class AttentionRing {
 public:
  static constexpr DecodeStage stage = decode_stage(D, Block);

  __device__ AttentionRing(const AttentionDecodeArgs& args, std::int64_t sequence,
                           std::int64_t head, int length, int first, int count,
                           std::uint32_t shared)
      : args_(args),
        sequence_(sequence),
        k_codes_(args.k_codes.data + head * args.k_codes.head),
        v_codes_(args.v_codes.data + head * args.v_codes.head),
        k_scales_(args.k_scales.data + head * args.k_scales.head),
        v_scales_(args.v_scales.data + head * args.v_scales.head),
        length_(length),
        first_(first),
        count_(count),
        shared_(shared),
        lane_(threadIdx.x & 31) {
    for (int i = 0; i < decode_stages - 1; ++i) fill(i);
  }

  /// Where chunk `i` lies; asks for one more. The warp calls it for 0, 1, ... in turn.
  __device__ std::uint32_t next(int i) {
    ptx::cp_async_wait_group<decode_stages - 2>();
    __syncwarp();
    fill(i + decode_stages - 1);
    return shared_ + i % decode_stages * stage.bytes;
  }
  /// Whether the chunk that next() gave is in the cache.
  __device__ bool present(int i) const { return (absent_ >> i % decode_stages & 1) == 0; }
  __device__ int token(int i) const { return (first_ + i * decode_warps) * decode_chunk; }

 private:
  __device__ void fill(int i) {
    if (i < count_) {
      if (i % 32 == 0) find_pages(i);
      const int page = __shfl_sync(~0u, pages_, i % 32);
      const int slot = i % decode_stages;
      absent_ = (absent_ & ~(1u << slot)) | (page < 0 ? 1u << slot : 0u);
      copy(token(i), page, shared_ + slot * stage.bytes);
    }
    ptx::cp_async_commit_group();
  }

  /// Pages of chunks [i, i + 32), one a lane; -1 where there is none.
  __device__ void find_pages(int i) {
    const int chunk = i + static_cast<int>(lane_);
    std::int64_t page = -1;
    if (chunk < count_) {
      const std::int64_t entry = token(chunk) >> args_.page_shift;
      page = args_.page_table ? args_.page_table[sequence_ * args_.max_pages + entry] : sequence_;
      if (page >= args_.pages) page = -1;
    }
    pages_ = page < 0 ? -1 : static_cast<int>(page);
  }

  __device__ void copy(int token, int page, std::uint32_t to) const {
    const int left = page < 0 ? 0 : length_ - token;
    const std::int64_t within = token & ((1 << args_.page_shift) - 1);
    const std::int64_t at = page < 0 ? 0 : page, in = page < 0 ? 0 : within;
    copy_codes(k_codes_ + at * args_.k_codes.page + in * args_.k_codes.token, args_.k_codes.token,
               to, left);
    copy_codes(v_codes_ + at * args_.v_codes.page + in * args_.v_codes.token, args_.v_codes.token,
               to + stage.v_codes, left);
    constexpr int row = D / Block, pieces = decode_chunk * row / 16;
    if (lane_ < 2 * pieces) {
      const bool v = lane_ >= pieces;
      const int piece = static_cast<int>(lane_) - (v ? pieces : 0);
      const std::uint8_t* from = v ? v_scales_ + at * args_.v_scales.page + in * row
                                   : k_scales_ + at * args_.k_scales.page + in * row;
      copy_piece(to + (v ? stage.v_scales : stage.k_scales), from, piece,
                 min(max(left * row - 16 * piece, 0), 16));
    }
  }
  __device__ static void copy_piece(std::uint32_t to, const std::uint8_t* from, int piece,
                                    int bytes) {
    ptx::cp_async_cg_shared_global_16(to + 16 * piece, from + (bytes > 0 ? 16 * piece : 0),
                                      static_cast<std::uint32_t>(bytes));
  }
  __device__ void copy_codes(const std::uint8_t* from, std::int64_t stride, std::uint32_t to,
                             int left) const {
    constexpr int parts = D / 32;  // of 16 bytes, of a token
#pragma unroll
    for (int i = 0; i < D / 64; ++i) {
      const int piece = static_cast<int>(lane_) + 32 * i, token = piece / parts;
      const bool there = token < left;
      ptx::cp_async_cg_shared_global_16(to + 16 * piece,
                                        there ? from + token * stride + piece % parts * 16 : from,
                                        there ? 16u : 0u);
    }
  }

  const AttentionDecodeArgs& args_;
  const std::int64_t sequence_;
  const std::uint8_t *k_codes_, *v_codes_, *k_scales_, *v_scales_;
  const int length_, first_, count_;
  const std::uint32_t shared_, lane_;
  int pages_ = -1;
  std::uint32_t absent_ = 0;
};

}  // namespace microscale::cuda
