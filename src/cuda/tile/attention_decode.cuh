// Attention of few rows over a cache of keys and values on Hopper, at the speed of memory.
//
// S^T = K Q^T: the first operand are 16 tokens, straight from their codes: lane t of a row of four
// takes the t-th quarter of d, so the sum over d comes in an order of its own and q is put to
// match. Row r of a half of the 16 is token r / 2 + 4 (r % 2) of it. O^T = V^T P^T: the lanes of
// row g take the g-th eighth of d, of two tokens at a time; S^T becomes P^T by movmatrix. One
// product more, by ones, adds the probabilities up.
//
// Probabilities are e^(s - reference), in FP16. A reference moves only when a score would not fit.
#pragma once

#include <cstdint>

#include "cuda/ptx/ldmatrix.cuh"
#include "cuda/ptx/mma.cuh"
#include "cuda/ptx/wgmma.cuh"
#include "cuda/tile/attention_codes.cuh"
#include "cuda/tile/attention_merge.cuh"
#include "cuda/tile/attention_query.cuh"
#include "cuda/tile/attention_ring.cuh"
#include "cuda/tile/attention_rows.cuh"
#include "cuda/tile/attention_scales.cuh"
#include "cuda/tile/grid_order.cuh"

namespace microscale::cuda {

/// Tiles: eights of rows, 1 or 2. Part: d is less than D.
template <class Codes, int D, int Tiles, bool Part>
class AttentionDecode {
 public:
  static constexpr int rows = 8 * Tiles;

  __device__ static void run(const AttentionDecodeArgs& args) {
    follow_previous_grid();
    const int index = static_cast<int>(blockIdx.x) / args.splits;
    const DecodeItem item(args, index, rows);
    if (item.count == 0) return;
    AttentionDecode(args, item, static_cast<int>(blockIdx.x - index * args.splits)).run();
  }

 private:
  using Ring = AttentionRing<Codes::format, D, Part>;
  static constexpr int k_eights = D / 32, v_eights = D / 64;  // elements of a lane, of a token
  static constexpr int words = Codes::words;                  // of eight elements
  static constexpr int row_bytes = D * words / 2;             // of a token's codes
  using Scales = AttentionScales<Codes, D, Part>;
  static constexpr int o_tiles = D / 16;
  static constexpr int k_of_scale = k_eights / Scales::k_scales,
                       v_of_scale = v_eights / Scales::v_scales;

  __device__ AttentionDecode(const AttentionDecodeArgs& args, const DecodeItem& item, int split)
      : args_(args),
        item_(item),
        split_(split),
        warp_(threadIdx.x / 32),
        lane_(threadIdx.x & 31),
        g_(lane_ >> 2),
        t_(lane_ & 3),
        scales_(args, shared_base() + warp_ * (Ring::stages * Ring::stage.bytes), own_token()) {}

  __device__ static std::uint32_t shared_base() {
    extern __shared__ __align__(128) unsigned char memory[];
    return static_cast<std::uint32_t>(__cvta_generic_to_shared(memory));
  }

  __device__ void run() {
    begin_ = item_.begin(args_, 0);
    end_ = max(item_.end(args_, item_.count - 1), begin_);
    inner_begin_ = item_.begin(args_, item_.count - 1);
    inner_end_ = item_.end(args_, 0);
    // Every warp of all parts has as many pieces of the keys, but for one.
    const std::int64_t first = begin_ / decode_piece,
                       pieces =
                           end_ > begin_ ? (end_ + decode_piece - 1) / decode_piece - first : 0;
    const int warps = args_.splits * decode_warps, warp = split_ * decode_warps + warp_;
    const int from = static_cast<int>(first + pieces * warp / warps) * decode_piece,
              to = static_cast<int>(first + pieces * (warp + 1) / warps) * decode_piece;
    const std::uint32_t base = shared_base(),
                        own = base + warp_ * (Ring::stages * Ring::stage.bytes);
    Ring ring(args_, item_.sequence, item_.kv_head, from, to, own,
              base + decode_barriers(Codes::format, D, rows) + warp_ * (8 * Ring::stages));
    place(own);
    load_query();
#pragma unroll 1
    for (int i = 0; i < ring.chunks(); ++i) {
      ring.wait();
#pragma unroll 1
      for (int piece = ring.first_piece(i); piece < ring.end_piece(i); ++piece) {
        const int token = ring.token(i) + piece * decode_piece;
        const std::uint32_t absent = ring.absent() >> (2 * piece) & 3;
        const bool whole =
            absent == 0 && token >= inner_begin_ && token + decode_piece <= inner_end_;
        attend(ring.at() + piece * (decode_piece * row_bytes),
               ring.at() + piece * decode_piece * scale_row(), whole, token, absent);
      }
      ring.next(i);
    }
    extern __shared__ __align__(128) unsigned char memory[];
    merge(reinterpret_cast<float*>(memory));
  }

  __device__ void load_query() {
    decode_query<Codes, D, Tiles>(args_, item_, mean_scores(), q_, factor_);
#pragma unroll
    for (int tile = 0; tile < Tiles; ++tile) {
#pragma unroll
      for (int j = 0; j < 2; ++j) reference_[tile][j] = decode_no_reference;
#pragma unroll
      for (int j = 0; j < 2; ++j) weight_[2 * tile + j] = weight_[2 + j] = 0.0f;
#pragma unroll
      for (int i = 0; i < o_tiles; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) o_[tile][i][j] = 0.0f;
    }
  }

  /// What the mean of K adds to the scores of each row, of this warp, in shared memory.
  __device__ float* mean_scores() const {
    extern __shared__ __align__(128) unsigned char memory[];
    return reinterpret_cast<float*>(memory + decode_means(Codes::format, D, rows)) + warp_ * rows;
  }

  /// Where this lane reads of a stage.
  __device__ void place(std::uint32_t own) {
    k_at_ = kept(own + own_token() * row_bytes + t_ * (row_bytes / 4));
    v_at_ = kept(own + Ring::stage.v_codes + t_ * row_bytes + g_ * (row_bytes / 8));
  }

  /// 32 tokens from `first` on; `codes`, `scales_at`: where they begin, from the ring's first ones;
  /// `absent`: bits 0 and 1, for 16 of them each.
  __device__ void attend(std::uint32_t codes, std::uint32_t scales_at, bool whole, int first,
                         std::uint32_t absent) {
    if (__builtin_expect(!whole, 0)) clear(codes, scales_at, first, absent);
    const typename Scales::Operands scales =
        scales_.read(scales_at, [&](float factor) { raise_values(factor); });
    float s[Tiles][8], factors[Tiles][2];
#pragma unroll
    for (int c = 0; c < 2; ++c) products(codes, c, scales, s);
#pragma unroll
    for (int tile = 0; tile < Tiles; ++tile)
#pragma unroll
      for (int j = 0; j < 2; ++j) factors[tile][j] = scales_.of_keys(factor_[tile][j]);
    if (__builtin_expect(!whole || args_.scores_change, 0))
      cap_and_mask(whole, first, absent, s, factors);
    std::uint32_t p[Tiles][4];
    probabilities(s, factors, p);
#pragma unroll
    for (int c = 0; c < 2; ++c) values(codes, c, scales, p);
  }

  __device__ int scale_row() const { return Ring::scale_row(args_); }

  /// Token of row g of the first half of 16.
  __device__ int own_token() const { return (g_ >> 1) + 4 * (g_ & 1); }

  /// What tokens that no row sees have in shared memory becomes 0: their scales; codes of 4 bits,
  /// which are always finite, then count for nothing.
  __device__ void clear(std::uint32_t codes, std::uint32_t scales_at, int first,
                        std::uint32_t absent) const {
    extern __shared__ __align__(128) unsigned char memory[];
    unsigned char* const own = memory + warp_ * (Ring::stages * Ring::stage.bytes);
    const auto unseen = [&](int n) {
      return (absent >> (n / 16) & 1) != 0 || first + n < begin_ || first + n >= end_;
    };
    if (unseen(lane_))
      for (int i = 0; i < scale_row(); ++i) {
        const std::uint32_t at = scales_at + lane_ * scale_row() + i;
        own[Ring::stage.k_scales + at] = own[Ring::stage.v_scales + at] = 0;
      }
    if constexpr (words == 2)
      for (int n = 0; n < decode_piece; ++n)
        if (unseen(n))
          for (int i = 4 * lane_; i < row_bytes; i += 128) {
            std::uint32_t* const at =
                reinterpret_cast<std::uint32_t*>(own + codes + n * row_bytes + i);
            *at = at[Ring::stage.v_codes / 4] = 0;
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
      shared_words<k_eights * words>(k_at_ + codes + (16 * c + 8 * half) * row_bytes, w[half]);
#pragma unroll
    for (int i = 0; i < k_eights; ++i) {
      NibbleHalves k[2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        k[half] = Codes::eight(w[half] + i * words);
#pragma unroll
        for (int n = 0; n < 4; ++n)
          k[half].n[n] = Scales::scaled_key(k[half].n[n], scales, c, half, i / k_of_scale);
      }
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const std::uint32_t a[4] = {k[0].n[3 - j], k[1].n[3 - j], k[0].n[1 - j], k[1].n[1 - j]};
#pragma unroll
        for (int tile = 0; tile < Tiles; ++tile)
          ptx::mma_m16n8k16_f32_f16(sums[tile], a, q_[tile][i][2 * j], q_[tile][i][2 * j + 1]);
      }
    }
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
          decode_change(args_, mean_scores()[8 * tile + 2 * t_ + (i & 1)], x);
      }
      factors[tile][0] = factors[tile][1] = 1.0f;
      if (!whole) mask(tile, first, absent, s[tile]);
    }
  }
  __device__ void mask(int tile, int first, std::uint32_t absent, float (&s)[8]) const {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int row = min(8 * tile + 2 * t_ + (i & 1), item_.count - 1),
                token = first + own_token() + 8 * (i >> 1);
      if ((absent >> (i >> 2) & 1) != 0 || token < item_.begin(args_, row) ||
          token >= item_.end(args_, row))
        s[i] = -INFINITY;
    }
  }

  /// e^(s factor - reference), summed, and as the second operand of O^T.
  __device__ void probabilities(const float (&s)[Tiles][8], const float (&factors)[Tiles][2],
                                std::uint32_t (&p)[Tiles][4]) {
    float largest[Tiles][2];
    bool fits = true;
#pragma unroll
    for (int tile = 0; tile < Tiles; ++tile)
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const float* const x = s[tile];
        largest[tile][j] =
            __fmul_rn(fmaxf(fmaxf(x[j], x[j + 2]), fmaxf(x[j + 4], x[j + 6])), factors[tile][j]);
        fits = fits && !(__fsub_rn(largest[tile][j], reference_[tile][j]) > decode_most);
      }
    if (__builtin_expect(__any_sync(~0u, !fits), 0)) raise(largest);
#pragma unroll
    for (int tile = 0; tile < Tiles; ++tile)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float e[2];
#pragma unroll
        for (int j = 0; j < 2; ++j)
          e[j] = ptx::ex2_approx_ftz_f32(
              __fmaf_rn(s[tile][2 * i + j], factors[tile][j], -reference_[tile][j]));
        p[tile][i] = ptx::movmatrix_trans_m8n8_b16(ptx::cvt_rn_f16x2_f32(e[0], e[1]));
      }
  }

  /// References of rows whose `largest` score is too high for theirs, and what has been summed.
  __device__ void raise(const float (&largest)[Tiles][2]) {
#pragma unroll
    for (int tile = 0; tile < Tiles; ++tile)
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        float factor;
        decode_raise(largest[tile][j], reference_[tile][j], factor);
        weight_[2 * tile + j] = __fmul_rn(weight_[2 * tile + j], factor);
#pragma unroll
        for (int i = 0; i < o_tiles; ++i) {
          o_[tile][i][j] = __fmul_rn(o_[tile][i][j], factor);
          o_[tile][i][j + 2] = __fmul_rn(o_[tile][i][j + 2], factor);
        }
      }
  }

  /// Of 16 tokens c.
  __device__ void values(std::uint32_t codes, int c, const typename Scales::Operands& scales,
                         const std::uint32_t (&p)[Tiles][4]) {
    std::uint32_t w[4][v_eights * words];
#pragma unroll
    for (int i = 0; i < 4; ++i)  // tokens t, t + 4, t + 8, t + 12
      shared_words<v_eights * words>(v_at_ + codes + (16 * c + 4 * i) * row_bytes, w[i]);
#pragma unroll
    for (int word = 0; word < v_eights; ++word)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        NibbleHalves v[2];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          v[i] = Codes::template of_two<v_eights * words>(w[2 * i], w[2 * i + 1], word, half);
#pragma unroll
          for (int n = 0; Scales::scaled && n < 4; ++n)
            v[i].n[n] = ptx::mul_rn_f16x2(v[i].n[n], scales.v[c][i][word / v_of_scale]);
        }
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          const std::uint32_t a[4] = {v[0].n[3 - j], v[0].n[1 - j], v[1].n[3 - j], v[1].n[1 - j]};
#pragma unroll
          for (int tile = 0; tile < Tiles; ++tile)
            ptx::mma_m16n8k16_f32_f16(o_[tile][(word * 2 + half) * 2 + j], a, p[tile][2 * c],
                                      p[tile][2 * c + 1]);
        }
      }
    constexpr std::uint32_t one = 0x3C003C00u, ones[2][4] = {{one, 0, one, 0}, {0, one, 0, one}};
#pragma unroll
    for (int tile = 0; tile < Tiles; ++tile)
      ptx::mma_m16n8k16_f32_f16(weight_, ones[tile], p[tile][2 * c], p[tile][2 * c + 1]);
  }

  /// What has been summed, relative to a higher reference of V's scales.
  __device__ void raise_values(float factor) {
#pragma unroll
    for (int tile = 0; tile < Tiles; ++tile)
#pragma unroll
      for (int i = 0; i < o_tiles; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) o_[tile][i][j] = __fmul_rn(o_[tile][i][j], factor);
  }

  /// Warps in their order.
  __device__ void merge(float* sums) {
    __syncthreads();
    float* const marks = sums + decode_warps * rows * D;  // reference and weight of warp and row
    const float global = args_.global_scales ? args_.global_scales[1] : 1.0f;
    const float factor = __fmul_rn(global, scales_.of_values());
#pragma unroll
    for (int tile = 0; tile < Tiles; ++tile)
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int row = 8 * tile + 2 * t_ + j;
        if (g_ == 0) {
          marks[(warp_ * rows + row) * 2] = reference_[tile][j];
          marks[(warp_ * rows + row) * 2 + 1] = weight_[2 * tile + j];
        }
        float* const to = sums + (warp_ * rows + row) * D + g_ * (D / 8);
#pragma unroll
        for (int i = 0; i < o_tiles; ++i) {
          const int at = i / 2 * 4 + 3 - i % 2;
          to[at] = __fmul_rn(o_[tile][i][j], factor);
          to[at - 2] = __fmul_rn(o_[tile][i][j + 2], factor);
        }
      }
    __syncthreads();
    merge_warps<D, rows>(args_, item_, split_, sums);
  }

  const AttentionDecodeArgs& args_;
  const DecodeItem item_;
  const int split_, warp_, lane_, g_, t_;
  int begin_, end_, inner_begin_, inner_end_;  // keys that some row sees, that all do
  Scales scales_;
  std::uint32_t k_at_, v_at_;
  std::uint32_t q_[Tiles][k_eights][4];
  float factor_[Tiles][2], reference_[Tiles][2];  // of rows 2 t, 2 t + 1
  float weight_[4];                               // of the same: of tile 0, of tile 1
  float o_[Tiles][o_tiles][4];
};

}  // namespace microscale::cuda

/// `blocks`: that a multiprocessor holds.
#define MICROSCALE_ATTENTION_DECODE_ENTRY(name, codes, d, tiles, blocks, part)             \
  extern "C" __global__ void __launch_bounds__(microscale::cuda::decode_threads, blocks)   \
      name(const __grid_constant__ microscale::cuda::AttentionDecodeArgs args) {           \
    microscale::cuda::AttentionDecode<microscale::cuda::codes, d, tiles, part>::run(args); \
  }
