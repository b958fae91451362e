// A warp's ring of chunks of a cache: 64 or 32 tokens of K and V with their scales, brought to
// shared memory without a register in between, ahead of what is computed. By bulk copies, one a
// lane, where tokens lie side by side, else in pieces of 16 bytes.
#pragma once

#include <cstdint>

#include "cuda/attention_decode_args.hpp"
#include "cuda/ptx/async_copy.cuh"
#include "cuda/ptx/elect.cuh"
#include "cuda/ptx/mbarrier.cuh"
#include "cuda/ptx/memory.cuh"

namespace microscale::cuda {

/// The same value, which the compiler keeps instead of computing it again.
__device__ inline std::uint32_t kept(std::uint32_t x) {
  return __shfl_sync(~0u, x, static_cast<int>(threadIdx.x & 31));
}

/// Tokens [from, to), multiples of decode_piece, of one sequence and head, as they lie in their
/// pages, whatever the sequence has of them, by chunks, the first and the last of which may be cut:
/// places in them are those of whole chunks. Runs of a chunk's tokens may be absent, because there
/// is no such page or the cache ends: then they are page 0's first, to be left out. Part: rows are
/// shorter than D, and zeros from there on; scales lie without gaps.
template <KvFormat Format, int D, bool Part>
class AttentionRing {
 public:
  static constexpr DecodeStage stage = decode_stage(Format, D);
  static constexpr int tokens = decode_chunk(Format, D), stages = decode_stages(Format, D);

  /// `shared`: this warp's stages; `barriers`: 8 bytes for each.
  __device__ AttentionRing(const AttentionDecodeArgs& args, int sequence, int head, int from,
                           int to, std::uint32_t shared, std::uint32_t barriers)
      : args_(args),
        sequence_(sequence),
        head_(static_cast<std::uint32_t>(head)),
        from_(from),
        to_(to),
        chunks_(to > from ? (to + tokens - 1) / tokens - from / tokens : 0),
        shared_(shared),
        barriers_(barriers) {
    if constexpr (Part)
      for (int i = 16 * lane(); i < stages * stage.bytes; i += 512)
        ptx::st_shared_v4(shared + i, make_uint4(0, 0, 0, 0));
    if (lane() < stages) ptx::mbarrier_init_shared(barriers + 8 * lane(), 1);
    ptx::fence_mbarrier_init();
    __syncwarp();
#pragma unroll 1
    for (int i = 0; i < stages; ++i) fill(i, i);
  }

  /// Waits for chunk `i`. The warp calls it for 0, 1, ... in turn.
  __device__ void wait() const {
    if (bulk()) {
      while (!ptx::mbarrier_try_wait_parity(barriers_ + 8 * at_, parity_)) {
      }
    } else {
      ptx::cp_async_wait_group<stages - 1>();
      __syncwarp();
    }
  }
  /// Where its stage begins, from the ring's first one.
  __device__ std::uint32_t at() const { return at_ * stage.bytes; }
  /// Bit n: its tokens from 16 n on are absent.
  __device__ std::uint32_t absent() const { return absent_ >> (sixteens * (stages - 1)) & all; }
  __device__ int chunks() const { return chunks_; }
  /// The first of chunk `i` if it were whole, and which of its pieces there are.
  __device__ int token(int i) const { return (from_ / tokens + i) * tokens; }
  __device__ int first_piece(int i) const { return max(from_ - token(i), 0) / decode_piece; }
  __device__ int end_piece(int i) const { return min(to_ - token(i), tokens) / decode_piece; }
  /// Chunk `i` has been read: its place is another one's.
  __device__ void next(int i) {
    __syncwarp();
    fill(i + stages, at_);
    if (++at_ == stages) at_ = 0, parity_ ^= 1;
  }

  /// Bytes of a token's scales: as many pieces of 16 bytes for 16 tokens.
  __device__ static int scale_row(const AttentionDecodeArgs& args) {
    constexpr int block = kv_page::block(Format);
    if constexpr (Part && block > 0) return args.d / block;
    return row;
  }

 private:
  static constexpr int row = kv_page::token_scale_bytes(Format, D);  // bytes of a token
  static constexpr int code_row = kv_page::token_code_bytes(Format, D);
  __device__ bool bulk() const { return !Part && args_.contiguous; }

  static constexpr int sixteens = tokens / 16;
  static constexpr std::uint32_t all = (1u << sixteens) - 1;

  __device__ static int lane() { return static_cast<int>(threadIdx.x & 31); }

  static constexpr int looked_up = 32 / sixteens;  // chunks
  __device__ void fill(int i, int to) {
    absent_ <<= sixteens;
    if (i < chunks_) {
      if (i % looked_up == 0) find_pages(i);
      absent_ |= missing_ >> (i % looked_up * sixteens) & all;
      const std::uint32_t shared = shared_ + to * stage.bytes;
      if (bulk())
        copy(i, shared, barriers_ + 8 * to);
      else
        copy_pieces(i, shared);
      __syncwarp();
    }
    ptx::cp_async_commit_group();
  }

  /// Pages of the next chunks from `i` on, of one's 16 tokens a lane.
  __device__ void find_pages(int i) {
    const int chunk = i + lane() / sixteens, first = token(chunk) + lane() % sixteens * 16;
    std::int64_t page = -1;
    if (chunk < chunks_ && first < args_.most_keys) {
      page = args_.page_table
                 ? args_.page_table[sequence_ * args_.max_pages + (first >> args_.page_shift)]
                 : sequence_;
      if (page >= args_.pages) page = -1;
    }
    missing_ = __ballot_sync(~0u, page < 0);
    pages_ = page < 0 ? 0 : static_cast<int>(page);
  }
  /// The page of token `first` of chunk i, and which of its tokens that is; page 0's first one for
  /// one that is absent.
  struct Place {
    int page;
    std::uint32_t in;
  };
  __device__ Place place(int i, int first) const {
    const int of = i % looked_up * sixteens + first / 16;
    const std::uint32_t mask = (1u << args_.page_shift) - 1;
    return {__shfl_sync(~0u, pages_, of),
            (missing_ >> of & 1) != 0 ? 0 : static_cast<std::uint32_t>(token(i) + first) & mask};
  }

  /// Where 16 bytes of a page and this head begin, `further` than their first ones.
  __device__ const std::uint8_t* address(const DecodePart& part, int page,
                                         std::uint32_t further) const {
    return part.data + 16 * (std::uint64_t{static_cast<std::uint32_t>(page)} * part.page +
                             std::uint64_t{head_} * part.head + further);
  }
  /// Chunk i to the stage at `shared`: lane n copies part n % parts of run n / parts.
  __device__ void copy(int i, std::uint32_t shared, std::uint32_t barrier) const {
    constexpr int parts = row > 0 ? 4 : 2;
    const int begin = max(from_ - token(i), 0), end = min(to_ - token(i), tokens),
              run = min(args_.run, tokens), of = lane() % parts,
              first = max(lane() / parts * run, begin),
              count = min((lane() / parts + 1) * run, end) - first;
    const Place at = place(i, min(first, tokens - 1));
    if (ptx::elect_sync())
      ptx::mbarrier_arrive_expect_tx(barrier, (end - begin) * (stage.bytes / tokens));
    __syncwarp();
    if (count <= 0) return;
    const int bytes = of < 2 ? code_row : row;
    const int to = of % 2 * (of < 2 ? stage.v_codes : stage.v_scales - stage.k_scales) +
                   (of < 2 ? 0 : stage.k_scales);
    // A token's codes, or 16 tokens' scales, are as many pieces of 16 bytes.
    const std::uint32_t further = at.in / 16 * bytes;
    ptx::cp_async_bulk_shared_cluster_global_mbarrier(shared + to + first * bytes,
                                                      address(args_.cache[of], at.page, further),
                                                      count * bytes, barrier);
  }

  /// The same of tokens that lie anywhere, in pieces of 16 bytes by all lanes.
  __device__ void copy_pieces(int i, std::uint32_t shared) const {
    const int run = min(args_.run, decode_piece), end = min(to_ - token(i), tokens);
#pragma unroll 1
    for (int first = max(from_ - token(i), 0); first < end; first += run)
      copy_run(place(i, first), shared, first, run);
  }
  __device__ void copy_run(Place at, std::uint32_t shared, int token, int count) const {
    // Rows of `pieces` each, `pitch` bytes apart in shared memory.
    const auto take = [&](int of, std::uint32_t first, int pieces, int pitch, int rows, int to) {
      const DecodePart& part = args_.cache[of];
      for (int n = lane(); n < rows * pieces; n += 32)
        ptx::cp_async_cg_shared_global_16(
            shared + to + n / pieces * pitch + 16 * (n % pieces),
            address(part, at.page, (first + n / pieces) * part.token + n % pieces));
    };
    const int pieces = Part ? args_.d * (code_row / 16) / D : code_row / 16, own = scale_row(args_);
    take(decode_k_codes, at.in, pieces, code_row, count, token * code_row);
    take(decode_v_codes, at.in, pieces, code_row, count, stage.v_codes + token * code_row);
    if constexpr (row > 0) {
      take(decode_k_scales, at.in / 16, own, 16 * own, count / 16, stage.k_scales + token * own);
      take(decode_v_scales, at.in / 16, own, 16 * own, count / 16, stage.v_scales + token * own);
    }
  }

  const AttentionDecodeArgs& args_;
  const int sequence_;
  const std::uint32_t head_;
  const int from_, to_, chunks_;
  const std::uint32_t shared_, barriers_;
  int pages_ = 0;              // each lane's
  std::uint32_t missing_ = 0;  // bit n: there is no page of lane n
  std::uint32_t absent_ = 0;   // as many bits a chunk as it has sixteens, the last one's lowest
  int at_ = 0;
  std::uint32_t parity_ = 0;
};

}  // namespace microscale::cuda
