// Keys and values that are kept in BF16 beside their pages, as more parts of the keys: in FP32,
// by a kernel of its own in front of the one that reads pages.
//
// 32 tokens at a time: a warp takes every third of them, lanes share a row of K out; then a thread
// an element of V for all rows.
#pragma once

#include <cstdint>

#include "cuda/tile/attention_merge.cuh"
#include "cuda/tile/attention_query.cuh"
#include "cuda/tile/grid_order.cuh"

namespace microscale::cuda {

template <int D, int Rows>
class AttentionCopies {
 public:
  /// A block has a part of an item, whose parts lie side by side.
  __device__ static void run(const AttentionDecodeArgs& args) {
    follow_previous_grid();
    const int parts = args.parts - args.splits, index = static_cast<int>(blockIdx.x);
    const DecodeItem item(args, index / parts, Rows);
    if (item.count == 0) return;
    AttentionCopies(args, item, index % parts).run(parts);
  }

 private:
  static_assert(Rows == 8 || Rows == 16, "what sums of rows are folded from");
  static constexpr int tile = 32;         // tokens
  static constexpr int keys_at_once = 4;  // of a warp
  static constexpr int at_once = 8;       // of them whose elements are asked for together
  static constexpr int own = D / 32;      // elements of a lane, of a row of K
  static constexpr int columns = (D + decode_threads - 1) / decode_threads;  // of a thread

  struct Shared {
    float q[Rows][D];
    float p[tile][Rows];  // scores, then probabilities
    float reference[Rows], weight[Rows], factor[Rows], mean[Rows];
  };
  __device__ static Shared& shared() {
    __shared__ Shared memory;
    return memory;
  }

  __device__ AttentionCopies(const AttentionDecodeArgs& args, const DecodeItem& item, int part)
      : args_(args),
        item_(item),
        part_(part),
        thread_(static_cast<int>(threadIdx.x)),
        lane_(thread_ & 31),
        warp_(thread_ / 32) {}

  __device__ void run(int parts) {
    load_query();
    float q[Rows][own], o[Rows][columns];
#pragma unroll
    for (int row = 0; row < Rows; ++row) {
#pragma unroll
      for (int i = 0; i < own; ++i) q[row][i] = shared().q[row][lane_ * own + i];
#pragma unroll
      for (int c = 0; c < columns; ++c) o[row][c] = 0.0f;
    }
    const int count = item_.paged_begin + item_.length - item_.paged_end,
              begin = count * part_ / parts, end = count * (part_ + 1) / parts;
#pragma unroll 1
    for (int first = begin; first < end; first += tile) {
      scores(q, first, min(tile, end - first));
      __syncthreads();
      probabilities();
      __syncthreads();
      values(o, first, min(tile, end - first));
      __syncthreads();
    }
    store(o);
  }

  /// The n-th copied token.
  __device__ int position(int n) const {
    return n < item_.paged_begin ? n : item_.paged_end + n - item_.paged_begin;
  }
  /// Its row among the copies.
  __device__ const std::uint16_t* row_of(int position, const std::uint16_t* first,
                                         const std::uint16_t* recent) const {
    const bool begins = position < item_.paged_begin;
    const std::int64_t count = begins ? args_.first_count : args_.recent_count,
                       at = item_.sequence * count + (begins ? position : position % count);
    return (begins ? first : recent) + (at * args_.kv_heads + item_.kv_head) * args_.d;
  }

  __device__ void load_query() {
    for (int i = thread_; i < Rows * (D / 16); i += decode_threads) {
      const int row = i / (D / 16), element = i % (D / 16) * 16;
      float v[16] = {};
      if (row < item_.count && element < args_.d) {
        const std::int64_t at = item_.element(args_, args_.q, row) + element;
        decode_load_eight(args_.q, at, v);
        decode_load_eight(args_.q, at + 8, v + 8);
      }
#pragma unroll
      for (int k = 0; k < 16; ++k) shared().q[row][element + k] = v[k];
    }
    __syncthreads();
    for (int row = warp_; row < Rows; row += decode_warps) {
      float sum = 0.0f;
      if (args_.mean && lane_ * own < args_.d)
#pragma unroll
        for (int i = 0; i < own; ++i)
          sum = __fmaf_rn(shared().q[row][lane_ * own + i],
                          args_.mean[item_.kv_head * args_.d + lane_ * own + i], sum);
#pragma unroll
      for (int lanes = 1; lanes < 32; lanes *= 2)
        sum = __fadd_rn(sum, __shfl_xor_sync(~0u, sum, lanes));
      if (lane_ == 0) {
        shared().mean[row] = __fmul_rn(sum, args_.scale_log2);
        shared().reference[row] = decode_no_reference;
        shared().weight[row] = 0.0f;
      }
    }
    __syncthreads();
    if (args_.hadamard != 0) {
      for (int i = thread_; i < Rows * (D / 16); i += decode_threads) {
        float* const at = &shared().q[i / (D / 16)][i % (D / 16) * 16];
        float v[16];
#pragma unroll
        for (int k = 0; k < 16; ++k) v[k] = at[k];
        decode_hadamard(v);
#pragma unroll
        for (int k = 0; k < 16; ++k) at[k] = v[k];
      }
    }
    __syncthreads();
  }

  /// Scores of this warp's tokens, seen or -infinity.
  __device__ void scores(const float (&q)[Rows][own], int first, int count) {
#pragma unroll 1
    for (int begin = warp_; begin < count; begin += keys_at_once * decode_warps) {
      std::uint32_t k[keys_at_once][own / 2];
#pragma unroll
      for (int i = 0; i < keys_at_once; ++i) {
        const int at = position(first + min(begin + i * decode_warps, count - 1));
        const std::uint16_t* const from = row_of(at, args_.first_k, args_.recent_k) + lane_ * own;
#pragma unroll
        for (int e = 0; e < own / 2; ++e)
          k[i][e] = lane_ * own < args_.d ? ptx::ld_global_nc_b32(from + 2 * e) : 0;
      }
#pragma unroll
      for (int i = 0; i < keys_at_once; ++i) {
        const int n = begin + i * decode_warps;
        if (n < count) score(q, k[i], n, position(first + n));
      }
    }
    for (int i = count * Rows + thread_; i < tile * Rows; i += decode_threads)
      shared().p[i / Rows][i % Rows] = -INFINITY;
  }

  /// Of token n of the tile, at `position` of the sequence, by a warp; `k`: this lane's elements.
  __device__ void score(const float (&q)[Rows][own], const std::uint32_t (&k)[own / 2], int n,
                        int position) {
    float sum[Rows];
#pragma unroll
    for (int row = 0; row < Rows; ++row) sum[row] = 0.0f;
#pragma unroll
    for (int e = 0; e < own / 2; ++e) {
      const float even = __uint_as_float(k[e] << 16), odd = __uint_as_float(k[e] & 0xFFFF0000u);
#pragma unroll
      for (int row = 0; row < Rows; ++row)
        sum[row] = __fmaf_rn(q[row][2 * e + 1], odd, __fmaf_rn(q[row][2 * e], even, sum[row]));
    }
    const float total = sum_of_rows(sum);
    const int row = own_row();
    if (lane_ % (32 / Rows) != 0) return;
    float s = __fmul_rn(total, args_.scale_log2);
    if (args_.scores_change) decode_change(args_, shared().mean[row], s);
    const int seen = min(row, item_.count - 1);
    const bool sees =
        position >= item_.first_seen(args_, seen) && position < item_.end_seen(args_, seen);
    shared().p[n][row] = sees ? s : -INFINITY;
  }

  /// Sums over all lanes, each row's in the lanes of own_row(): halves of the rows change lanes
  /// until one is left.
  __device__ float sum_of_rows(float (&sum)[Rows]) const {
    if constexpr (Rows == 16) fold<8>(sum, 16);
    fold<4>(sum, Rows == 16 ? 8 : 16);
    fold<2>(sum, Rows == 16 ? 4 : 8);
    fold<1>(sum, Rows == 16 ? 2 : 4);
#pragma unroll
    for (int lanes = 16 / Rows; lanes >= 1; lanes /= 2)
      sum[0] = __fadd_rn(sum[0], __shfl_xor_sync(~0u, sum[0], lanes));
    return sum[0];
  }
  template <int Half>
  __device__ void fold(float (&sum)[Rows], int lanes) const {
    const bool upper = lane_ & lanes;
#pragma unroll
    for (int row = 0; row < Half; ++row) {
      const float sent = upper ? sum[row] : sum[row + Half];
      const float kept = upper ? sum[row + Half] : sum[row];
      sum[row] = __fadd_rn(kept, __shfl_xor_sync(~0u, sent, lanes));
    }
  }
  __device__ int own_row() const { return lane_ / (32 / Rows); }

  /// e^(s - reference) in place of scores; references follow the largest score.
  __device__ void probabilities() {
    for (int row = warp_; row < Rows; row += decode_warps) {
      const float s = shared().p[lane_][row];
      float largest = fmaxf(s, decode_no_reference);
#pragma unroll
      for (int lanes = 1; lanes < 32; lanes *= 2)
        largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, lanes));
      const float before = shared().reference[row], reference = fmaxf(before, largest),
                  p = ptx::ex2_approx_ftz_f32(__fsub_rn(s, reference));
      float sum = p;
#pragma unroll
      for (int lanes = 1; lanes < 32; lanes *= 2)
        sum = __fadd_rn(sum, __shfl_xor_sync(~0u, sum, lanes));
      shared().p[lane_][row] = p;
      __syncwarp();
      if (lane_ == 0) {
        const float factor = ptx::ex2_approx_ftz_f32(__fsub_rn(before, reference));
        shared().factor[row] = factor;
        shared().reference[row] = reference;
        shared().weight[row] = __fadd_rn(__fmul_rn(shared().weight[row], factor), sum);
      }
    }
  }

  __device__ void values(float (&o)[Rows][columns], int first, int count) {
#pragma unroll
    for (int row = 0; row < Rows; ++row)
#pragma unroll
      for (int c = 0; c < columns; ++c) o[row][c] = __fmul_rn(o[row][c], shared().factor[row]);
#pragma unroll 1
    for (int n = 0; n < count; n += at_once) {
      std::uint32_t x[at_once][columns];
#pragma unroll
      for (int i = 0; i < at_once; ++i) {
        const std::uint16_t* const v =
            row_of(position(first + min(n + i, count - 1)), args_.first_v, args_.recent_v);
#pragma unroll
        for (int c = 0; c < columns; ++c) x[i][c] = element(c) < args_.d ? v[element(c)] : 0;
      }
#pragma unroll
      for (int i = 0; i < at_once; ++i)
#pragma unroll
        for (int row = 0; row < Rows; ++row) {
          const float p = n + i < count ? shared().p[n + i][row] : 0.0f;
#pragma unroll
          for (int c = 0; c < columns; ++c)  // a token that a row does not see may hold anything
            o[row][c] =
                p == 0.0f ? o[row][c] : __fmaf_rn(p, __uint_as_float(x[i][c] << 16), o[row][c]);
        }
    }
  }

  __device__ int element(int column) const { return thread_ + column * decode_threads; }

  __device__ void store(const float (&o)[Rows][columns]) const {
#pragma unroll
    for (int row = 0; row < Rows; ++row) {
      if (row >= item_.count) break;
#pragma unroll
      for (int c = 0; c < columns; ++c)
        if (element(c) < D)
          store_part<D, Rows>(args_, item_, args_.splits + part_, row, element(c), o[row][c]);
      if (thread_ == 0)
        store_mark<D, Rows>(args_, item_, args_.splits + part_, row, shared().reference[row],
                            shared().weight[row]);
    }
  }

  const AttentionDecodeArgs& args_;
  const DecodeItem item_;
  const int part_, thread_, lane_, warp_;
};

}  // namespace microscale::cuda
