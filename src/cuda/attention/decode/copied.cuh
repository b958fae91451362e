// Keys and values that are kept in BF16 beside their pages, added to what a warp has summed of the
// pages: 16 tokens a group, straight from global memory to operands of mma.m16n8k16 in BF16.
//
// They come last, since sums over pages are in a unit that moves with their scales. Group n is that
// of split n % splits, and of its warps the last has the first of them, as it has the fewest
// chunks. Their rows are asked for from the second-level cache while the last chunk of pages is
// computed.
//
// Neither of FP16 and BF16 holds what the other does: q and p, which are FP16, go in as two terms
// of BF16, exactly, the upper 8 bits and the other 3.
#pragma once

#include <climits>
#include <cstdint>

#include "cuda/ptx/memory.cuh"
#include "cuda/attention/decode/ring.cuh"
#include "cuda/attention/decode/sums.cuh"

namespace microscale::cuda::attention::decode {

/// Two FP16 numbers times `scale`, which takes no bits from them, as sums of two pairs in BF16. The
/// second is finite where the first is not.
struct Bf16Terms {
  std::uint32_t high, low;

  __device__ Bf16Terms(std::uint32_t halves, float scale) {
    float x[2], rest[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      x[i] = __fmul_rn(ptx::cvt_f32_f16(halves >> (16 * i)), scale);
      rest[i] = __fsub_rn(x[i], __uint_as_float(__float_as_uint(x[i]) & 0xFFFF0000u));
    }
    constexpr std::uint32_t upper = 0x7632, most = 0x43804380u;  // 2^8, above every rest
    high = ptx::prmt_b32(__float_as_uint(x[0]), __float_as_uint(x[1]), upper);
    low = ptx::min_bf16x2(ptx::prmt_b32(__float_as_uint(rest[0]), __float_as_uint(rest[1]), upper),
                          most);
  }
};

/// What BF16 numbers do as codes (FourBitCodes, EightBitCodes).
struct CopiedBf16 {
  static constexpr int words = 4;  // of eight elements
  __device__ static NibbleHalves eight(const std::uint32_t* w) {
    return pairs(w[0], w[1], w[2], w[3]);
  }
  template <int Words>
  __device__ static NibbleHalves of_two(const std::uint32_t (&a)[Words],
                                        const std::uint32_t (&b)[Words], int four) {
    return pairs(a[2 * four], a[2 * four + 1], b[2 * four], b[2 * four + 1]);
  }

 private:
  __device__ static NibbleHalves pairs(std::uint32_t a0, std::uint32_t a1, std::uint32_t b0,
                                       std::uint32_t b1) {
    return {{ptx::prmt_b32(a0, b0, 0x5410), ptx::prmt_b32(a0, b0, 0x7632),
             ptx::prmt_b32(a1, b1, 0x5410), ptx::prmt_b32(a1, b1, 0x7632)}};
  }
};

/// A warp's groups of an item's copied tokens. Made anew where it is needed: registers have other
/// things to hold in between.
template <class Sums, int D, DecodeTokens Tokens>
class AttentionCopied {
  static constexpr bool Part = Tokens == DecodeTokens::part;
  static constexpr int Tiles = Sums::tiles;
  static constexpr int tokens = 16;  // of a group
  static constexpr int ahead = 2;    // groups that the second-level cache is asked for
  static constexpr int sector = 16;  // elements, the least that it reads
  // Words of values that lie side by side, as far as one load takes them.
  static constexpr int v_run = Sums::four_step == 4 ? 4 : 2;
  // So that sums of d products with q below 2^15 are finite.
  static constexpr float q_scale = 0x1p-23f, score_scale = 0x1p23f;
  static constexpr int unseen = INT_MIN;
  // Registers do not hold them beside the keys.
  static constexpr bool late_values = D >= 128 || Part;
  static constexpr bool eighths = Sums::four_step == 4;  // ValueOrder
  // Fours of values at once: all, but where the blocks of a multiprocessor leave few registers. Two
  // at least: loads are of 16 bytes.
  static constexpr int v_fours =
      late_values && (Sums::rows == 4 || (Sums::rows == 8 && eighths)) && Sums::v_fours > 2
          ? Sums::v_fours / 2
          : Sums::v_fours;
  static constexpr int k_words = Sums::k_eights * CopiedBf16::words,
                       v_words = v_fours * CopiedBf16::words / 2;

 public:
  __device__ AttentionCopied(const AttentionDecodeArgs& args, const DecodeItem& item, int split,
                             int warp)
      : args_(args),
        item_(item),
        lane_(static_cast<int>(eighths ? kept(threadIdx.x & 31) : threadIdx.x & 31)),
        g_(lane_ >> 2),
        t_(lane_ & 3),
        first_(split + args.splits * (decode_warps - 1 - warp)),
        step_(args.splits * decode_warps),
        count_(item.paged_begin + item.length - item.paged_end),
        seen_begin_(item.first_seen(args, 0)),
        seen_end_(item.end_seen(args, item.count - 1)) {}

  /// Brings the first groups nearer.
  __device__ void prefetch() const {
#pragma unroll
    for (int i = 0; i < ahead; ++i) prefetch(first_ + i * step_);
  }

  /// `sums`: of pages, or nothing, in units of the values; `mean_scores`, `factors`: of each row,
  /// what the mean of K adds to its scores and what sums with its q are multiplied by.
  __device__ void attend(Sums& sums, const float* mean_scores, const float* factors) const {
#pragma unroll 1
    for (int group = first_; group * tokens < count_; group += step_) {
      prefetch(group + ahead * step_);
      const Place place = place_of(group * tokens + lane_ % tokens);
      if (__all_sync(~0u, place.row == unseen)) continue;
      std::uint32_t k[2][k_words], v[4][v_words];
#pragma unroll
      for (int half = 0; half < 2; ++half)
        load<4, 8>(args_.first_k, args_.recent_k, place, decode_own_token() + 8 * half,
                   t_ * (D / 4), k[half]);
      const auto load_values = [&](int four) {
        // Kept, so that addresses are made anew for each group.
        const auto own = static_cast<int>(kept(static_cast<std::uint32_t>(g_ * Sums::lane_step)));
#pragma unroll
        for (int i = 0; i < 4; ++i)
          load<v_run, v_run / 2 * Sums::four_step>(args_.first_v, args_.recent_v, place, t_ + 4 * i,
                                                   own + four * Sums::four_step, v[i]);
      };
      if constexpr (!late_values) load_values(0);
      float s[Tiles][4];
      products(sums, k, s);
      scores(place, mean_scores, factors, s);
      std::uint32_t p[Tiles][2];
      float ones[Tiles][2];
#pragma unroll
      for (int tile = 0; tile < Tiles; ++tile) ones[tile][0] = ones[tile][1] = 1.0f;
      sums.probabilities(s, ones, p);
      sums.add_weights(p, 0);
#pragma unroll
      for (int four = 0; four < Sums::v_fours; four += v_fours) {
        if constexpr (late_values) load_values(four);
        values(sums, v, p, four);
      }
    }
  }

 private:
  /// Of a token: in its sequence, -1 if there is none, and its row among the recent ones, or ~ of
  /// it among the first ones, or `unseen` by each row of queries.
  struct Place {
    int position, row;
  };
  __device__ Place place_of(int n) const {
    if (n >= count_) return {-1, unseen};
    const int position = n < item_.paged_begin ? n : item_.paged_end + n - item_.paged_begin;
    if (position < seen_begin_ || position >= seen_end_) return {position, unseen};
    if (position < item_.paged_begin) return {position, ~position};
    constexpr std::int64_t most = INT_MAX;  // more than there are positions
    const auto around = static_cast<unsigned>(min(args_.recent_count, most));
    return {position, static_cast<int>(static_cast<unsigned>(position) % around)};
  }
  /// Where the elements of a row that is seen begin.
  __device__ const std::uint16_t* address(const std::uint16_t* first, const std::uint16_t* recent,
                                          int row) const {
    const std::int64_t sequence = item_.sequence, at = row < 0
                                                           ? sequence * args_.first_count + ~row
                                                           : sequence * args_.recent_count + row;
    return (row < 0 ? first : recent) + (at * args_.kv_heads + item_.kv_head) * args_.d;
  }

  /// A row of K by each of 16 lanes, of V by the others.
  __device__ void prefetch(int group) const {
    const Place place = place_of(group * tokens + lane_ % tokens);
    if (place.row == unseen) return;
    const bool keys = lane_ < tokens;
    const std::uint16_t* const from = address(keys ? args_.first_k : args_.first_v,
                                              keys ? args_.recent_k : args_.recent_v, place.row);
#pragma unroll
    for (int i = 0; i < D; i += sector)
      if (!Part || i < args_.d) ptx::prefetch_global_l2(from + i);
  }

  /// Elements of token `n` of a group from `element` on, runs of `Run` words that are `Step`
  /// elements apart; zeros where there are none, and in the place of what is not seen, which may be
  /// anything.
  template <int Run, int Step, int Words>
  __device__ void load(const std::uint16_t* first, const std::uint16_t* recent, const Place& place,
                       int n, int element, std::uint32_t (&w)[Words]) const {
    const int row = __shfl_sync(~0u, place.row, n);
    const std::uint16_t* const from = address(first, recent, row) + element;
#pragma unroll
    for (int i = 0; i < Words; i += Run) {
      const int at = i / Run * Step;
      const bool there = row != unseen && (!Part || element + at < args_.d);
      if constexpr (Run == 4) {
        const uint4 x = there ? ptx::ld_global_nc_v4(from + at) : uint4{};
        w[i] = x.x, w[i + 1] = x.y, w[i + 2] = x.z, w[i + 3] = x.w;
      } else {
        const uint2 x = there ? ptx::ld_global_nc_v2(from + at) : uint2{};
        w[i] = x.x, w[i + 1] = x.y;
      }
    }
  }

  __device__ void products(const Sums& sums, const std::uint32_t (&k)[2][k_words],
                           float (&s)[Tiles][4]) const {
#pragma unroll
    for (int tile = 0; tile < Tiles; ++tile)
#pragma unroll
      for (int i = 0; i < 4; ++i) s[tile][i] = 0.0f;
    Sums::multiply_keys(
        [&](int half, int i) { return CopiedBf16::eight(k[half] + i * CopiedBf16::words); },
        [&](const std::uint32_t(&a)[4], int tile, int i, int j) {
          // Kept, so that terms are found anew for each group: registers do not hold them.
          const Bf16Terms q[2] = {{kept(sums.q[tile][i][2 * j]), q_scale},
                                  {kept(sums.q[tile][i][2 * j + 1]), q_scale}};
          ptx::mma_m16n8k16_f32_bf16(s[tile], a, q[0].high, q[1].high);
          ptx::mma_m16n8k16_f32_bf16(s[tile], a, q[0].low, q[1].low);
        });
  }

  /// Sums become scores, of unseen tokens -infinity.
  __device__ void scores(const Place& place, const float* mean_scores, const float* factors,
                         float (&s)[Tiles][4]) const {
    int positions[2];
#pragma unroll
    for (int half = 0; half < 2; ++half)
      positions[half] = __shfl_sync(~0u, place.position, decode_own_token() + 8 * half);
#pragma unroll
    for (int tile = 0; tile < Tiles; ++tile)
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int row = Sums::row_of(tile, 2 * t_ + j), seen = min(row, item_.count - 1),
                  begin = item_.first_seen(args_, seen), end = item_.end_seen(args_, seen);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          float& x = s[tile][2 * half + j];
          x = __fmul_rn(__fmul_rn(x, factors[row]), score_scale);
          if (args_.scores_change) decode_change(args_, mean_scores[row], x);
          if (positions[half] < begin || positions[half] >= end) x = -INFINITY;
        }
      }
  }

  /// Of fours from number `four` on.
  __device__ void values(Sums& sums, const std::uint32_t (&v)[4][v_words],
                         const std::uint32_t (&p)[Tiles][2], int four) const {
    std::uint32_t terms[Tiles][2][2];
#pragma unroll
    for (int tile = 0; tile < Tiles; ++tile)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const Bf16Terms x(p[tile][i], 1.0f);
        terms[tile][0][i] = x.high, terms[tile][1][i] = x.low;
      }
#pragma unroll
    for (int i = 0; i < v_fours; ++i)
      sums.multiply_four(
          four + i, CopiedBf16::of_two(v[0], v[1], i), CopiedBf16::of_two(v[2], v[3], i),
          [&](const std::uint32_t(&a)[4], float(&o)[4], int tile) {
#pragma unroll
            for (int term = 0; term < 2; ++term)
              ptx::mma_m16n8k16_f32_bf16(o, a, terms[tile][term][0], terms[tile][term][1]);
          });
  }

  const AttentionDecodeArgs& args_;
  const DecodeItem& item_;
  const int lane_, g_, t_;
  const int first_, step_;           // of this warp's groups
  const int count_;                  // tokens
  const int seen_begin_, seen_end_;  // positions that some row of queries sees
};

}  // namespace microscale::cuda::attention::decode
