// A warp's ring of chunks of a cache in shared memory: 64 or 32 tokens of K and V with their
// scales, of which it brings the first and another warp the others (AttentionFeed).
#pragma once

#include <cstdint>

#include "cuda/attention/decode/args.hpp"
#include "cuda/ptx/memory.cuh"
#include "cuda/block/stage_ring.cuh"

namespace microscale::cuda::attention::decode {

/// The same value, which the compiler keeps instead of computing it again.
__device__ inline std::uint32_t kept(std::uint32_t x) {
  return __shfl_sync(~0u, x, static_cast<int>(threadIdx.x & 31));
}

/// Tokens [from, to), multiples of decode_piece, by chunks of `Tokens`, the first and the last of
/// which may be cut: places in them are those of whole chunks.
template <int Tokens>
struct AttentionChunks {
  int from, to;

  __device__ int count() const {
    return to > from ? (to + Tokens - 1) / Tokens - from / Tokens : 0;
  }
  /// The first token of chunk `i` if it were whole.
  __device__ int token(int i) const { return (from / Tokens + i) * Tokens; }
  /// Of which it has [begin, end).
  __device__ int begin(int i) const { return max(from - token(i), 0); }
  __device__ int end(int i) const { return min(to - token(i), Tokens); }
};

template <KvFormat Format, int D, DecodeTokens Tokens>
class AttentionRing {
 public:
  static constexpr DecodeStage stage = decode_stage(Format, D);
  static constexpr int tokens = decode_chunk(Format, D), stages = decode_stages(Format, D);
  /// Of the rings, and of their barriers, behind which lies a word for each stage.
  static constexpr int bytes = stages * stage.bytes, barriers = decode_ring_barriers(Format, D);
  using Chunks = AttentionChunks<tokens>;

  __device__ AttentionRing(Chunks chunks, std::uint32_t barriers)
      : chunks_(chunks),
        count_(chunks.count()),
        absences_(barriers + 16 * stages),
        ring_(barriers) {}

  __device__ int count() const { return count_; }
  __device__ const Chunks& chunks() const { return chunks_; }
  /// Waits for the next chunk. Bit n: its tokens from 16 n on are absent.
  __device__ std::uint32_t wait() const {
    ring_.wait_full();
    return ptx::ld_shared_b32(absences_ + 4 * ring_.stage());
  }
  /// Where its stage begins, from the ring's first one.
  __device__ std::uint32_t at() const { return ring_.stage() * stage.bytes; }
  /// It has been read: its place is another one's.
  __device__ void next() {
    ring_.release(ring_.stage(), true);
    ring_.next();
  }

  /// Bytes of a token's scales: as many pieces of 16 bytes for 16 tokens.
  __device__ static int scale_row(const AttentionDecodeArgs& args) {
    constexpr int block = kv_page::block(Format);
    if constexpr (Tokens == DecodeTokens::part && block > 0) return args.d / block;
    return kv_page::token_scale_bytes(Format, D);
  }
  /// Where parts of a stage lie; constants but for records.
  __device__ static DecodePlaces places(const AttentionDecodeArgs& args) {
    if constexpr (Tokens == DecodeTokens::records) return args.places;
    return decode_places(Format, D, scale_row(args), 0);
  }

 private:
  const Chunks chunks_;
  const int count_;
  const std::uint32_t absences_;
  StageRing<stages> ring_;
};

}  // namespace microscale::cuda::attention::decode
