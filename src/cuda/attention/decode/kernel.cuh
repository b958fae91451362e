// Attention of few rows over a cache of keys and values on Hopper, at the speed of memory.
//
// One warp of a block brings chunks of pages to shared memory (AttentionFeed) for the other three,
// which begin with some of their own and take them through their rings (AttentionRing), 32 tokens
// at a time, codes straight from shared memory to operands (AttentionSums), and in the end the
// tokens that are kept in BF16 (AttentionCopied). Blocks behind them merge the parts of keys
// (AttentionDecodeMerge).
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/ptx/async_copy.cuh"
#include "cuda/ptx/control.cuh"
#include "cuda/ptx/special_registers.cuh"
#include "cuda/attention/codes.cuh"
#include "cuda/attention/decode/copied.cuh"
#include "cuda/attention/decode/feed.cuh"
#include "cuda/attention/merge.cuh"
#include "cuda/attention/decode/query.cuh"
#include "cuda/attention/decode/ring.cuh"
#include "cuda/attention/rows.cuh"
#include "cuda/attention/decode/scales.cuh"
#include "cuda/attention/decode/sums.cuh"
#include "cuda/attention/decode/values.cuh"

namespace microscale::cuda::attention::decode {

/// Rows: of an item, at most 4, 8 or 16.
template <class Codes, int D, int Rows, DecodeTokens Tokens>
class AttentionDecode {
 public:
  static constexpr int rows = Rows;

  __device__ static void run(const AttentionMergedArgs& args) {
    Feed::initialize(args, shared_base(), barriers());
    if (threadIdx.x % 32 == 0)
      ptx::st_shared_b32(places() + threadIdx.x / 32 * 4, ptx::mov_warpid());
    __syncthreads();
    const int warp = own_warp();
    if (args.splits == 1) ptx::griddepcontrol_launch_dependents();
    ptx::griddepcontrol_wait();
    extern __shared__ __align__(128) unsigned char memory[];
    float* const sums = reinterpret_cast<float*>(memory);
    if (args.splits > 1 && static_cast<int>(blockIdx.x) >= args.items * args.splits) {
      AttentionDecodeMerge<D, rows>::run(args,
                                         static_cast<int>(blockIdx.x) - args.items * args.splits);
      return;
    }
    const DecodeItem item = item_of(args);
    if (item.count == 0) return;
    if (threadIdx.x == 0) ptx::st_shared_b32(row_count(), item.count);
    const int split = split_of(args, item);
    const DecodeKeys keys(args, item, split);
    // Asked for in front of keys and values, behind which it would come as late as those.
    const DecodeQuery<D, Sums> query(args, item);
    // All warps bring by the same code, those that compute their first chunks: it is long.
    Feed feed(args, item, keys, warp, shared_base(), barriers());
    while (feed.fill()) {
    }
    AttentionDecode own(args, warp);
    if (warp != feeds)
      own.run(item, keys, query);
    else
      prefetch_copied(args);
    // All warps meet in the same place, as the barrier wants it.
    __syncthreads();
    if (const int again = own_warp(); again != feeds) own.store(sums, again);
    __syncthreads();
    finish(args, sums);
  }

 private:
  using Ring = AttentionRing<Codes::format, D, Tokens>;
  using Feed = AttentionFeed<Codes::format, D, Tokens>;
  static constexpr bool turned = decode_turns(Codes::format, Rows);
  using Scales = AttentionScales<Codes, D, Tokens, turned>;
  using Values =
      std::conditional_t<turned, TurnedValues<Codes, D, Tokens>, LaneValues<Codes, D, Tokens>>;
  using Sums = AttentionSums<D, Rows, Values::order>;
  using Copied = AttentionCopied<Sums, D, Tokens>;
  static constexpr int Tiles = Sums::tiles, k_eights = Sums::k_eights;
  static constexpr int words = Codes::words;       // of eight elements
  static constexpr int row_bytes = D * words / 2;  // of a token's codes
  static constexpr int k_of_scale = k_eights / Scales::k_scales;

  /// The block's item, found again where it is needed: registers have no room for it beside sums.
  __device__ static DecodeItem item_of(const AttentionDecodeArgs& args) {
    return {args, args.by_splits.divide(static_cast<int>(kept(blockIdx.x))), rows};
  }
  __device__ static int split_of(const AttentionDecodeArgs& args, const DecodeItem& item) {
    return static_cast<int>(blockIdx.x) - item.index * args.splits;
  }

  static constexpr int feeds = -1;
  /// This warp's number of those that compute, or `feeds`. Found again where it is wanted.
  __device__ static int own_warp() {
    const int warp = static_cast<int>(threadIdx.x / 32), feeder = feeding_warp();
    return warp == feeder ? feeds : warp - (warp > feeder);
  }
  /// `warp`: of those that compute, or `feeds`.
  __device__ AttentionDecode(const AttentionDecodeArgs& args, int warp)
      : args_(args),
        warp_(warp),
        lane_(threadIdx.x & 31),
        g_(lane_ >> 2),
        t_(lane_ & 3),
        scales_(args, shared_base() + warp_ * Ring::bytes) {}

  __device__ static std::uint32_t shared_base() {
    extern __shared__ __align__(128) unsigned char memory[];
    return static_cast<std::uint32_t>(__cvta_generic_to_shared(memory));
  }
  __device__ static std::uint32_t barriers() {
    return shared_base() + decode_barriers(Codes::format, D, rows);
  }
  /// The places of the block's warps on their multiprocessor.
  __device__ static std::uint32_t places() { return barriers() + decode_warps * Ring::barriers; }
  /// How many rows the item has.
  __device__ static std::uint32_t row_count() { return places() + 4 * (2 * decode_warps + 1); }
  /// The scale of all values, which this warp keeps here, as memory is far away when it is wanted.
  __device__ std::uint32_t values_scale() const {
    return places() + 4 * (decode_warps + 1) + 4 * warp_;
  }
  /// The warp whose scheduler is its block's place, so that blocks side by side take that of
  /// different ones and each scheduler has as many warps that compute. Wherever warps are, it is
  /// one of them, the same for all.
  __device__ static int feeding_warp() {
    const std::uint32_t block = ptx::ld_shared_b32(places()) / (decode_warps + 1);
    int feeder = decode_warps;
#pragma unroll
    for (int warp = 0; warp < decode_warps; ++warp)
      if ((ptx::ld_shared_b32(places() + 4 * warp) - block) % (decode_warps + 1) == 0)
        feeder = min(feeder, warp);
    return feeder;
  }

  /// What follows the pages. Not before those have been brought: what is computed in between would
  /// drive it out again.
  __device__ static void prefetch_copied(const AttentionDecodeArgs& args) {
    if (args.first_count + args.recent_count == 0) return;
    const DecodeItem item = item_of(args);
#pragma unroll 1
    for (int warp = 0; warp < decode_warps; ++warp)
      Copied(args, item, split_of(args, item), warp).prefetch();
  }

  __device__ void run(const DecodeItem& first, const DecodeKeys& keys,
                      const DecodeQuery<D, Sums>& query) {
    place();
    Ring ring = prepare(first, keys, query);
#pragma unroll 1
    for (int i = 0; i < ring.count(); ++i) {
      const std::uint32_t absences = ring.wait();
      const int end = ring.chunks().end(i) / decode_piece;
#pragma unroll 1
      for (int piece = ring.chunks().begin(i) / decode_piece; piece < end; ++piece) {
        const int token = ring.chunks().token(i) + piece * decode_piece;
        const std::uint32_t absent = absences >> (2 * piece) & 3;
        attend(ring.at() + piece * Ring::places(args_).piece_codes,
               ring.at() + piece * Ring::places(args_).piece_scales,
               absent == 0 && token >= inner_begin_ && token + decode_piece <= inner_end_, token,
               absent);
      }
      ring.next();
    }
    const float global = __uint_as_float(ptx::ld_shared_b32(values_scale()));
    if constexpr (Values::unit != 1.0f) sums_.scale_values(Values::unit);
    sums_.scale_values(__fmul_rn(global, scales_.of_values()));
    if (args_.first_count + args_.recent_count > 0) {
      const DecodeItem item = item_of(args_);
      Copied(args_, item, split_of(args_, item), warp_)
          .attend(sums_, row_terms(), row_terms() + rows);
    }
  }

  /// Sums of all warps into results, where keys have one part, else into that part.
  __device__ static void finish(const AttentionMergedArgs& args, const float* sums) {
    if (args.splits == 1) {
      const DecodeItem item = item_of(args);
      merge_warps<D, rows>(
          sums, item.count,
          [&](int row, int element, float reference, float weight, const float4& sum) {
            const float four[4] = {sum.x, sum.y, sum.z, sum.w};
            decode_store(args, item, row, element, reference, weight, four);
          });
      return;
    }
    const int item = args.by_splits.divide(static_cast<int>(blockIdx.x)),
              split = static_cast<int>(blockIdx.x) - item * args.splits,
              count = static_cast<int>(ptx::ld_shared_b32(row_count()));
    const DecodeParts<D, rows> parts(args, item);
    merge_warps<D, rows>(
        sums, count, [&](int row, int element, float reference, float weight, const float4& sum) {
          *parts.sums(split, row, element) = sum;
          if (element == 0) *parts.mark(split, row) = make_float2(reference, weight);
        });
    __syncthreads();
    if (const int row = static_cast<int>(threadIdx.x); row < count)
      decode_flags(args, item, row).set(split);
  }

  /// The queries, and what of the keys is this warp's.
  __device__ Ring prepare(const DecodeItem& item, const DecodeKeys& keys,
                          const DecodeQuery<D, Sums>& query) {
    inner_begin_ = keys.inner_begin;
    inner_end_ = keys.inner_end;
    if (lane_ == 0) ptx::st_shared_b32(values_scale(), __float_as_uint(query.values_global));
    decode_query<Codes>(args_, item, query, row_terms(), row_terms() + rows, sums_.q, sums_.factor);
    sums_.clear();
    return {{keys.from(warp_), keys.to(warp_)}, barriers() + warp_ * Ring::barriers};
  }

  /// Of each row, of this warp, in shared memory: what the mean of K adds to its scores, and behind
  /// them what sums with copied keys are multiplied by.
  __device__ float* row_terms() const {
    extern __shared__ __align__(128) unsigned char memory[];
    return reinterpret_cast<float*>(memory + decode_row_terms(Codes::format, D, rows)) +
           warp_ * (2 * rows);
  }

  /// Where this lane reads of a stage.
  __device__ void place() {
    const std::uint32_t own = shared_base() + warp_ * Ring::bytes;
    k_at_ = kept(own + decode_own_token() * row_bytes + t_ * (row_bytes / 4));
    values_.place(args_, own,
                  shared_base() + decode_factors(Codes::format, D, rows) +
                      warp_ * decode_factor_bytes(Codes::format, D, rows));
  }

  /// 32 tokens from `first` on; `codes`, `scales_at`: where they begin, from the ring's first ones;
  /// `absent`: bits 0 and 1, for 16 of them each.
  __device__ void attend(std::uint32_t codes, std::uint32_t scales_at, bool whole, int first,
                         std::uint32_t absent) {
    if (__builtin_expect(!whole, 0)) clear(codes, scales_at, first, absent);
    const typename Scales::Operands scales =
        scales_.read(scales_at, [&](float factor) { sums_.scale_values(factor); });
    float s[Tiles][8], factors[Tiles][2];
#pragma unroll
    for (int c = 0; c < 2; ++c) products(codes, c, scales, s);
#pragma unroll
    for (int tile = 0; tile < Tiles; ++tile)
#pragma unroll
      for (int j = 0; j < 2; ++j) factors[tile][j] = scales_.of_keys(sums_.factor[tile][j]);
    if (__builtin_expect(!whole || args_.scores_change, 0))
      cap_and_mask(whole, first, absent, s, factors);
    std::uint32_t p[Tiles][4];
    sums_.probabilities(s, factors, p);
    values_.add(args_, codes, scales.v, p, sums_);
#pragma unroll
    for (int c = 0; c < 2; ++c) sums_.add_weights(p, 2 * c);
  }

  __device__ int scale_row() const { return Ring::scale_row(args_); }

  /// What tokens that no row sees have in shared memory becomes 0: their scales; codes of 4 bits,
  /// which are always finite, then count for nothing.
  __device__ void clear(std::uint32_t codes, std::uint32_t scales_at, int first,
                        std::uint32_t absent) const {
    extern __shared__ __align__(128) unsigned char memory[];
    unsigned char* const own = memory + warp_ * Ring::bytes;
    const DecodeItem item = item_of(args_);
    const int begin = item.begin(args_, 0), end = item.end(args_, item.count - 1);
    const auto unseen = [&](int n) {
      return (absent >> (n / 16) & 1) != 0 || first + n < begin || first + n >= end;
    };
    if (unseen(lane_))
      for (int i = 0; i < scale_row(); ++i) {
        const std::uint32_t at = scales_at + lane_ / 16 * Ring::places(args_).sixteen_scales +
                                 lane_ % 16 * scale_row() + i;
        own[Ring::places(args_).k_scales + at] = own[Ring::places(args_).v_scales + at] = 0;
      }
    if constexpr (words == 2)
      for (int n = 0; n < decode_piece; ++n)
        if (unseen(n))
          for (int i = 4 * lane_; i < row_bytes; i += 128) {
            std::uint32_t* const at = reinterpret_cast<std::uint32_t*>(
                own + codes + n / 16 * Ring::places(args_).sixteen_codes + n % 16 * row_bytes + i);
            *at = at[Ring::places(args_).v_codes / 4] = 0;
          }
    ptx::fence_proxy_async_shared();  // copies will write there
    __syncwarp();
  }

  /// Sums s[tile][4 c + i] of 16 tokens c.
  __device__ void products(std::uint32_t codes, int c, const typename Scales::Operands& scales,
                           float (&s)[Tiles][8]) {
    float sums[Tiles][4];
#pragma unroll
    for (int tile = 0; tile < Tiles; ++tile)
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[tile][i] = 0.0f;
    std::uint32_t w[2][k_eights * words];
#pragma unroll
    for (int half = 0; half < 2; ++half)
      shared_words<k_eights * words>(
          k_at_ + codes + c * Ring::places(args_).sixteen_codes + 8 * half * row_bytes, w[half]);
    Sums::multiply_keys(
        [&](int half, int i) {
          NibbleHalves k = Codes::eight(w[half] + i * words);
#pragma unroll
          for (int n = 0; n < 4; ++n)
            k.n[n] = Scales::scaled_key(k.n[n], scales, c, half, i / k_of_scale);
          return k;
        },
        [&](const std::uint32_t(&a)[4], int tile, int i, int j) {
          ptx::mma_m16n8k16_f32_f16(sums[tile], a, sums_.q[tile][i][2 * j],
                                    sums_.q[tile][i][2 * j + 1]);
        });
#pragma unroll
    for (int tile = 0; tile < Tiles; ++tile)
#pragma unroll
      for (int i = 0; i < 4; ++i) s[tile][4 * c + i] = sums[tile][i];
  }

  /// Sums become scores, whose factor is 1.
  __device__ void cap_and_mask(bool whole, int first, std::uint32_t absent, float (&s)[Tiles][8],
                               float (&factors)[Tiles][2]) const {
#pragma unroll
    for (int tile = 0; tile < Tiles; ++tile) {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        float& x = s[tile][i];
        x = __fmul_rn(x, factors[tile][i & 1]);
        if (args_.scores_change)
          decode_change(args_, row_terms()[Sums::row_of(tile, 2 * t_ + (i & 1))], x);
      }
      factors[tile][0] = factors[tile][1] = 1.0f;
      if (!whole) mask(tile, first, absent, s[tile]);
    }
  }
  __device__ void mask(int tile, int first, std::uint32_t absent, float (&s)[8]) const {
    const DecodeItem item = item_of(args_);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int row = min(Sums::row_of(tile, 2 * t_ + (i & 1)), item.count - 1),
                token = first + decode_own_token() + 8 * (i >> 1);
      if ((absent >> (i >> 2) & 1) != 0 || token < item.begin(args_, row) ||
          token >= item.end(args_, row))
        s[i] = -INFINITY;
    }
  }

  /// What merge_warps() takes; `warp`: this one's number.
  __device__ void store(float* sums, int warp) const {
    float* const marks = sums + decode_warps * rows * D;  // reference and weight of warp and row
#pragma unroll
    for (int tile = 0; tile < Tiles; ++tile)
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int row = Sums::row_of(tile, 2 * t_ + j);
        if (g_ == 0) {
          marks[(warp * rows + row) * 2] = sums_.reference[tile][j];
          marks[(warp * rows + row) * 2 + 1] = sums_.weight[2 * tile + j];
        }
        if (!Values::has(g_, t_)) continue;
        float* const to = sums + (warp * rows + row) * D + g_ * Sums::lane_step;
#pragma unroll
        for (int i = 0; i < Sums::o_tiles; ++i) {
          const int at = i / 2 * Sums::four_step + 3 - i % 2;
          to[at] = sums_.o[tile][i][j];
          to[at - 2] = sums_.o[tile][i][j + 2];
        }
      }
  }

  const AttentionDecodeArgs& args_;
  const int warp_, lane_, g_, t_;
  int inner_begin_, inner_end_;  // keys that all rows see
  Scales scales_;
  std::uint32_t k_at_;
  Values values_;
  Sums sums_;
};

}  // namespace microscale::cuda::attention::decode
