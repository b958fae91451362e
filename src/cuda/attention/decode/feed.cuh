// What brings a block's chunks of a cache to the rings of its warps, ahead of what they compute:
// behind the first a warp of its own, as waiting for stages, finding pages and starting copies took
// a fifth of the time of those that compute. By bulk copies, one a lane, where tokens lie side by
// side, else in pieces of 16 bytes.
#pragma once

#include <cstdint>

#include "cuda/ptx/async_copy.cuh"
#include "cuda/ptx/control.cuh"
#include "cuda/attention/decode/ring.cuh"
#include "cuda/attention/rows.cuh"

namespace microscale::cuda::attention::decode {

/// Which keys the warps of one part take.
struct DecodeKeys {
  int begin, end, inner_begin, inner_end;  // those that some row sees, that all do
  int first, pieces;                       // of all parts, in pieces
  int warp, each, rest;                    // this part's first warp; pieces of one, and those over

  __device__ DecodeKeys(const AttentionDecodeArgs& args, const DecodeItem& item, int split)
      : begin(item.begin(args, 0)),
        end(max(item.end(args, item.count - 1), begin)),
        inner_begin(item.begin(args, item.count - 1)),
        inner_end(item.end(args, 0)),
        first(begin / decode_piece),
        pieces(end > begin ? (end + decode_piece - 1) / decode_piece - first : 0),
        warp(split * decode_warps),
        each(args.by_warps.divide(pieces)),
        rest(pieces - each * args.splits * decode_warps) {}

  /// Of warp n of this part, tokens [from, to): as many pieces as others have, or one more.
  __device__ int from(int n) const {
    return (first + (warp + n) * each + min(warp + n, rest)) * decode_piece;
  }
  __device__ int to(int n) const { return from(n + 1); }
};

/// Tokens are brought as they lie in their pages, whatever the sequence has of them. Those of a
/// page that is not there, or behind the end of the cache, are page 0's first, and named as absent.
/// DecodeTokens::part: rows are zeros from their end on; scales lie without gaps.
///
/// Eight lanes serve each warp of the block, and each eight goes its own way: a lane has one part
/// of a cache (K's codes, ...) and one half of a chunk, or of it all where pages are as long. The
/// first chunks, a ring of them, a warp brings itself, as one warp would take longer to ask for
/// those of all.
template <KvFormat Format, int D, DecodeTokens Tokens>
class AttentionFeed {
  using Ring = AttentionRing<Format, D, Tokens>;
  static constexpr bool part = Tokens == DecodeTokens::part,
                        records = Tokens == DecodeTokens::records;
  static constexpr DecodeStage stage = Ring::stage;
  static constexpr int tokens = Ring::tokens, stages = Ring::stages;
  static constexpr int lanes = 8;  // of a warp that is served

 public:
  /// All threads of the block, which meet at a barrier afterwards. `shared`: the rings;
  /// `barriers`: theirs.
  __device__ static void initialize(const AttentionDecodeArgs& args, std::uint32_t shared,
                                    std::uint32_t barriers) {
    if constexpr (part)
      for (int i = 16 * threadIdx.x; i < decode_warps * Ring::bytes; i += 16 * decode_threads)
        ptx::st_shared_v4(shared + i, make_uint4(0, 0, 0, 0));
    // A stage is full by one arrival and the bytes that it expects, or the copies of all lanes.
    if (threadIdx.x < decode_warps)
      StageRing<stages>(barriers + threadIdx.x * Ring::barriers)
          .init(1, bulk(args) ? 1 : 1 + lanes);
  }

  /// `own`: the warp that calls this, for its first chunks; -1: one that brings what follows those
  /// of all.
  __device__ AttentionFeed(const AttentionDecodeArgs& args, const DecodeItem& item,
                           const DecodeKeys& keys, int own, std::uint32_t shared,
                           std::uint32_t barriers)
      : args_(args),
        sequence_(item.sequence),
        head_(static_cast<std::uint32_t>(item.kv_head)),
        warp_(own >= 0 ? own : min(lane() / lanes, decode_warps - 1)),
        part_(lane() % 4),
        half_(lane() % lanes / 4),
        chunks_{keys.from(warp_), keys.to(warp_)},
        count_(own >= 0                        ? lane() < lanes ? min(chunks_.count(), stages) : 0
               : lane() / lanes < decode_warps ? chunks_.count()
                                               : 0),
        bytes_(part_ < 2 ? code_row : row),
        page_(args.cache[first_part()].page),
        from_(args.cache[first_part()].data +
              16 * (std::uint64_t{head_} * args.cache[first_part()].head)),
        at_(part_ % 2 * (part_ < 2 ? stage.v_codes : stage.v_scales - stage.k_scales) +
            (part_ < 2 ? 0 : stage.k_scales)),
        shared_(shared + warp_ * Ring::bytes),
        barriers_(barriers + warp_ * Ring::barriers),
        ring_(barriers_) {
    if (own < 0) {
      next_ = stages;
#pragma unroll
      for (int i = 0; i < stages; ++i) ring_.next();
    }
    find_pages();
  }

  /// Starts the next chunks of warps that have room for one. Whether any is left.
  __device__ bool fill() {
    const bool ready = next_ < count_ && ring_.is_empty();
    if (!__any_sync(~0u, ready)) {
      ptx::nanosleep(100);
    } else {
      start(ready);
      if (ready) {
        ++next_;
        ring_.next();
        find_pages();
      }
    }
    return __any_sync(~0u, next_ < count_);
  }

 private:
  static constexpr int row = kv_page::token_scale_bytes(Format, D);  // bytes of a token
  static constexpr int code_row = kv_page::token_code_bytes(Format, D);
  static constexpr int sixteens = decode_piece / 16;  // of a lane's half
  static constexpr int halves = tokens / decode_piece;

  __device__ static bool bulk(const AttentionDecodeArgs& args) {
    return records || (!part && args.contiguous);
  }
  __device__ static int lane() { return static_cast<int>(threadIdx.x & 31); }

  /// What this lane's copies begin with: its part, or a record.
  __device__ int first_part() const { return records ? static_cast<int>(decode_k_codes) : part_; }

  /// Pages of the next chunk's tokens that are this lane's half; -1 where there is none.
  __device__ void find_pages() {
#pragma unroll
    for (int i = 0; i < sixteens; ++i) {
      const int first = chunks_.token(next_) + half_ * decode_piece + 16 * i;
      std::int64_t page = -1;
      if (first < chunks_.to && first < args_.most_keys) {
        page = args_.page_table
                   ? args_.page_table[sequence_ * args_.max_pages + (first >> args_.page_shift)]
                   : sequence_;
        if (page >= args_.pages) page = -1;
      }
      pages_[i] = page < 0 ? -1 : static_cast<int>(page);
    }
  }

  /// The next chunk of warps that are `ready`.
  __device__ void start(bool ready) {
    const int begin = chunks_.begin(next_), end = chunks_.end(next_);
    std::uint32_t absent = 0;
    if (__any_sync(~0u, lowest_page() < 0)) {
#pragma unroll
      for (int i = 0; i < sixteens; ++i) {
        const std::uint32_t missing = __ballot_sync(~0u, pages_[i] < 0) >> (lane() / lanes * lanes);
#pragma unroll
        for (int half = 0; half < halves; ++half)
          absent |= (missing >> (4 * half) & 1) << (half * sixteens + i);
      }
    }
    if (ready && lane() % lanes == 0) {
      ptx::st_shared_b32(barriers_ + 16 * stages + 4 * ring_.stage(), absent);
      if (bulk(args_))
        ptx::mbarrier_arrive_expect_tx(ring_.full(), (end - begin) * (stage.bytes / tokens));
      else
        ptx::mbarrier_arrive(ring_.full());
    }
    __syncwarp();
    if (!ready) return;
    if (half_ < halves) {
      if (!bulk(args_))
        in_runs<1>(decode_piece, begin, end,
                   [&](int page, int first, int last) { copy_pieces(page, first, last); });
      else if constexpr (records)
        copy_record(begin, end);
      else if (row > 0 || part_ < 2)
        in_runs<sixteens>(tokens, begin, end,
                          [&](int page, int first, int last) { copy(page, first, last); });
    }
    if (!bulk(args_)) ptx::cp_async_mbarrier_arrive_noinc(ring_.full());
  }
  /// each(page, first, last): tokens [first, last) of the chunk are in that page; at most `most` at
  /// a time. `Unrolled`: how many copies of each() the code has.
  template <int Unrolled, class Each>
  __device__ void in_runs(int most, int begin, int end, Each&& each) const {
    const int run = min(args_.run, most);  // a power of two
    if (run > decode_piece) {
      if (half_ == 0) each(pages_[0], begin, end);
      return;
    }
#pragma unroll Unrolled
    for (int i = 0; i < sixteens; ++i) {
      const int first = max(half_ * decode_piece + 16 * i, begin),
                last = min(half_ * decode_piece + 16 * i + run, end);
      if ((16 * i & (run - 1)) == 0 && first < last)
        each(i == 0 ? pages_[0] : pages_[1], first, last);
    }
  }

  __device__ int lowest_page() const {
    int lowest = pages_[0];
#pragma unroll
    for (int i = 1; i < sixteens; ++i) lowest = min(lowest, pages_[i]);
    return lowest;
  }
  /// Token `first` of the next chunk in its page, page 0's first one for one that is absent.
  __device__ std::uint32_t in_page(int page, int first) const {
    const std::uint32_t mask = (1u << args_.page_shift) - 1;
    return page < 0 ? 0 : static_cast<std::uint32_t>(chunks_.token(next_) + first) & mask;
  }
  __device__ std::uint32_t to() const { return shared_ + ring_.stage() * stage.bytes; }

  /// This lane's part of tokens that lie side by side.
  __device__ void copy(int page, int first, int last) const {
    ptx::cp_async_bulk_shared_cluster_global_mbarrier(
        to() + at_ + first * bytes_,
        from_ + 16 * (std::uint64_t{static_cast<std::uint32_t>(max(page, 0))} * page_) +
            std::uint64_t{in_page(page, first)} * bytes_,
        (last - first) * bytes_, ring_.full());
  }

  /// A page of this head as it is, by as many lanes of a half as it has pages.
  __device__ void copy_record(int begin, int end) const {
    constexpr int of_token = stage.bytes / tokens;
    const int first = half_ * decode_piece + part_ * args_.record;
    if (part_ * args_.record >= decode_piece || first < begin || first >= end) return;
    const auto page = static_cast<std::uint32_t>(max(part_ == 0 ? pages_[0] : pages_[1], 0));
    ptx::cp_async_bulk_shared_cluster_global_mbarrier(to() + first * of_token,
                                                      from_ + 16 * (std::uint64_t{page} * page_),
                                                      args_.record * of_token, ring_.full());
  }

  /// All parts of tokens that lie anywhere, in pieces of 16 bytes, by the four lanes of a half. One
  /// copy of the code for all of them: it is the largest part of the kernel otherwise, and few
  /// calls come here.
  __device__ void copy_pieces(int page, int first, int last) const {
    const int of_codes = part ? args_.d * (code_row / 16) / D : code_row / 16,
              of_scales = Ring::scale_row(args_);
#pragma unroll 1
    for (int of = 0; of < (row > 0 ? 4 : 2); ++of) {
      const bool codes = of < 2, values = of % 2 != 0;
      // Rows of `pieces` each, `pitch` bytes apart in shared memory: those of `of_row` tokens.
      const int of_row = codes ? 1 : decode_scale_tokens, pieces = codes ? of_codes : of_scales,
                pitch = codes ? code_row : 16 * of_scales,
                at = codes    ? values * stage.v_codes
                     : values ? stage.v_scales
                              : stage.k_scales;
      const DecodePart& cached = args_.cache[of];
      const std::uint8_t* const from =
          cached.data +
          16 * (std::uint64_t{static_cast<std::uint32_t>(max(page, 0))} * cached.page +
                std::uint64_t{head_} * cached.head +
                std::uint64_t{in_page(page, first) / of_row} * cached.token);
#pragma unroll 1
      for (int n = part_; n < (last - first) / of_row * pieces; n += 4)
        ptx::cp_async_cg_shared_global_16(
            to() + at + (first / of_row + n / pieces) * pitch + 16 * (n % pieces),
            from + 16 * (std::uint64_t{static_cast<std::uint32_t>(n / pieces)} * cached.token +
                         n % pieces));
    }
  }

  const AttentionDecodeArgs& args_;
  const int sequence_;
  const std::uint32_t head_;
  const int warp_, part_, half_;
  const AttentionChunks<tokens> chunks_;
  const int count_;
  // Of this lane's part: bytes of a token, a page in pieces of 16, where this head begins in page
  // 0, and in a stage.
  const std::uint32_t bytes_, page_;
  const std::uint8_t* const from_;
  const std::uint32_t at_;
  const std::uint32_t shared_, barriers_;
  int next_ = 0;
  int pages_[sixteens];
  StageRing<stages> ring_;
};

}  // namespace microscale::cuda::attention::decode
