// A warp's ring of chunks of a cache: 16 tokens of K and V with their scales, brought to shared
// memory without a register in between, some chunks ahead of what is computed.
#pragma once

#include <cstdint>

#include "cuda/attention_decode_args.hpp"
#include "cuda/ptx/async_copy.cuh"
#include "cuda/ptx/memory.cuh"

namespace microscale::cuda {

/// The same value, which the compiler keeps instead of computing it again.
__device__ inline std::uint32_t kept(std::uint32_t x) {
  return __shfl_sync(~0u, x, static_cast<int>(threadIdx.x & 31));
}
__device__ inline std::uint64_t kept(const std::uint8_t* address) {
  const auto x = reinterpret_cast<std::uint64_t>(address);
  return static_cast<std::uint64_t>(kept(static_cast<std::uint32_t>(x >> 32))) << 32 |
         kept(static_cast<std::uint32_t>(x));
}

/// Chunks first, first + 4, ... of one sequence and head, whole as they lie in their pages,
/// whatever the sequence has of them. Of a page that there is not, page 0's, to be left out. Part:
/// rows are shorter than D, and zeros from there on; scales lie without gaps.
template <KvFormat Format, int D, bool Part>
class AttentionRing {
 public:
  static constexpr DecodeStage stage = decode_stage(Format, D);
  static constexpr int stages = decode_stages(Format, D);

  /// `shared`: this warp's stages.
  __device__ AttentionRing(const AttentionDecodeArgs& args, int sequence, int head, int first,
                           int count, std::uint32_t shared)
      : args_(args), sequence_(sequence), first_(first), count_(count) {
    const int lane = static_cast<int>(threadIdx.x & 31), own = lane % parts;
    const auto codes = [&](const DecodePart& part) {
      return kept(part.data + 16 * (head * part.head + own +
                                    lane / parts * static_cast<std::int64_t>(part.token)));
    };
    k_codes_ = codes(args.k_codes);
    v_codes_ = codes(args.v_codes);
    const bool v = lane >= scale_row(args);
    const int piece = lane - (v ? scale_row(args) : 0);
    const DecodePart& scales = v ? args.v_scales : args.k_scales;
    scales_ = kept(scales.data + 16 * (head * scales.head + piece));
    scales_page_ = kept(scales.page);
    codes_to_ = kept(shared + 16 * lane);
    scales_to_ = kept(shared + (v ? stage.v_scales : stage.k_scales) + 16 * piece);
    lane_ = kept(static_cast<std::uint32_t>(lane));
    mask_ = (1u << args.page_shift) - 1;
    if constexpr (Part) {
      for (int i = 16 * lane; i < stages * stage.bytes; i += 512)
        ptx::st_shared_v4(shared + i, make_uint4(0, 0, 0, 0));
      __syncwarp();
    }
#pragma unroll 1
    for (int i = 0; i < stages - 1; ++i) fill(i);
  }

  /// Waits for chunk `i`, of stage i % stages, and asks for one more. The warp calls it for
  /// 0, 1, ... in turn.
  __device__ void next(int i) {
    ptx::cp_async_wait_group<stages - 2>();
    __syncwarp();
    fill(i + stages - 1);
  }
  /// Whether the chunk that next() waited for is in the cache.
  __device__ bool present() const { return (absent_ >> (stages - 1) & 1) == 0; }
  __device__ int token(int i) const { return (first_ + i * decode_warps) * decode_chunk; }

  /// Bytes of a token's scales: as many pieces of 16 bytes for 16 tokens.
  __device__ static int scale_row(const AttentionDecodeArgs& args) {
    constexpr int block = kv_page::block(Format);
    if constexpr (Part && block > 0) return args.d / block;
    return static_cast<int>(kv_page::token_scale_bytes(Format, D));
  }

 private:
  static constexpr int parts = kv_page::token_code_bytes(Format, D) / 16;  // of a token's codes

  __device__ void fill(int i) {
    absent_ *= 2;
    if (i < count_) {
      if (i % 32 == 0) find_pages(i);
      const int page = __shfl_sync(~0u, pages_, i % 32);
      absent_ += static_cast<std::uint32_t>(page) >> 31;
      copy(static_cast<std::uint32_t>(max(page, 0)), token(i) & mask_, i % stages * stage.bytes);
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

  /// The chunk at token `in` of a page.
  __device__ void copy(std::uint32_t page, std::uint32_t in, std::uint32_t to) const {
    copy_codes(k_codes_, args_.k_codes, page, in, to);
    copy_codes(v_codes_, args_.v_codes, page, in, to + stage.v_codes);
    const auto row = static_cast<std::uint32_t>(scale_row(args_));
    if (kv_page::block(Format) > 0 && lane_ < 2 * row)
      ptx::cp_async_cg_shared_global_16(
          to + scales_to_,
          at(scales_, static_cast<std::uint64_t>(page) * scales_page_ + in / decode_chunk * row));
  }
  __device__ void copy_codes(std::uint64_t base, const DecodePart& part, std::uint32_t page,
                             std::uint32_t in, std::uint32_t to) const {
    const std::uint64_t first = static_cast<std::uint64_t>(page) * part.page + in * part.token;
    constexpr int apart = 32 / parts;  // tokens
    if (Part && static_cast<int>(lane_) % parts >= args_.d * parts / D) return;
#pragma unroll
    for (int i = 0; i < stage.v_codes / 512; ++i)
      ptx::cp_async_cg_shared_global_16(
          to + codes_to_ + 512 * i,
          at(base, first) + 16 * apart * i * static_cast<std::uint64_t>(part.token));
  }
  __device__ static const std::uint8_t* at(std::uint64_t base, std::uint64_t sixteens) {
    return reinterpret_cast<const std::uint8_t*>(base + 16 * sixteens);
  }

  const AttentionDecodeArgs& args_;
  const int sequence_, first_, count_;
  std::uint64_t k_codes_, v_codes_, scales_;  // of this lane
  std::uint32_t scales_page_, codes_to_, scales_to_, mask_, lane_;
  int pages_ = -1;
  std::uint32_t absent_ = 0;  // bit n: of the chunk before the n last ones asked for
};

}  // namespace microscale::cuda
