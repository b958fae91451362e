// Keys and values that are kept in BF16 beside their pages, as one more part of the keys: in FP32,
// by a block of its own, which runs beside those that read pages.
//
// 32 tokens at a time: a warp takes eight of them, lanes share a row of K out; then a thread an
// element of V for all rows.
#pragma once

#include <cstdint>

#include "cuda/tile/attention_merge.cuh"
#include "cuda/tile/attention_query.cuh"

namespace microscale::cuda {

template <int D, int Rows>
class AttentionCopies {
 public:
  __device__ static void run(const AttentionDecodeArgs& args, int index) {
    const DecodeItem item(args, index, Rows);
    if (item.count == 0) return;
    AttentionCopies(args, item).run();
  }

 private:
  static_assert(Rows == 8 || Rows == 16, "what sums of rows are folded from");
  static constexpr int tile = 32;     // tokens
  static constexpr int own = D / 32;  // elements of a lane, of a row of K
  static constexpr int across = D < decode_threads ? decode_threads / D : 1;  // threads an element
  static constexpr int columns = D > decode_threads ? D / decode_threads : 1;

  struct Shared {
    float q[Rows][D];
    float p[tile][Rows];  // scores, then probabilities
    float reference[Rows], weight[Rows], factor[Rows], mean[Rows];
    float halves[across > 1 ? Rows* D : 1];
  };
  __device__ static Shared& shared() {
    static_assert(sizeof(Shared) <= decode_shared_bytes(KvFormat::mxfp4, D, Rows),
                  "it takes the place of the rings, those of the smallest format, too");
    extern __shared__ __align__(128) unsigned char memory[];
    return *reinterpret_cast<Shared*>(memory);
  }

  __device__ AttentionCopies(const AttentionDecodeArgs& args, const DecodeItem& item)
      : args_(args),
        item_(item),
        thread_(static_cast<int>(threadIdx.x)),
        lane_(thread_ & 31),
        warp_(thread_ / 32) {}

  __device__ void run() {
    load_query();
    float q[Rows][own], o[Rows][columns];
#pragma unroll
    for (int row = 0; row < Rows; ++row) {
#pragma unroll
      for (int i = 0; i < own; ++i) q[row][i] = shared().q[row][lane_ * own + i];
#pragma unroll
      for (int c = 0; c < columns; ++c) o[row][c] = 0.0f;
    }
    const int before = item_.paged_begin, count = before + item_.length - item_.paged_end;
#pragma unroll 1
    for (int first = 0; first < count; first += tile) {
      scores(q, first, min(tile, count - first));
      __syncthreads();
      probabilities();
      __syncthreads();
      values(o, first, min(tile, count - first));
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

  /// Scores of eight tokens of this warp, seen or -infinity.
  __device__ void scores(const float (&q)[Rows][own], int first, int count) {
#pragma unroll 1
    for (int i = 0; i < tile / decode_warps; ++i) {
      const int n = warp_ * (tile / decode_warps) + i;
      const int at = position(first + min(n, count - 1));
      const std::uint16_t* const k = row_of(at, args_.first_k, args_.recent_k) + lane_ * own;
      float sum[Rows];
#pragma unroll
      for (int row = 0; row < Rows; ++row) sum[row] = 0.0f;
#pragma unroll
      for (int e = 0; e < own; e += 2) {
        const std::uint32_t pair = lane_ * own < args_.d ? ptx::ld_global_nc_b32(k + e) : 0;
        const float even = __uint_as_float(pair << 16), odd = __uint_as_float(pair & 0xFFFF0000u);
#pragma unroll
        for (int row = 0; row < Rows; ++row)
          sum[row] = __fmaf_rn(q[row][e + 1], odd, __fmaf_rn(q[row][e], even, sum[row]));
      }
      const float total = sum_of_rows(sum);
      const int row = own_row();
      if (lane_ % (32 / Rows) == 0) {
        float s = __fadd_rn(__fmul_rn(total, args_.scale_log2), shared().mean[row]);
        if (args_.softcap_log2 > 0.0f) {
          float capped[4] = {s, s, s, s};
          decode_cap(args_.softcap_log2, capped);
          s = capped[0];
        }
        const int seen = min(row, item_.count - 1);
        const bool sees =
            n < count && at >= item_.first_seen(args_, seen) && at < item_.end_seen(args_, seen);
        shared().p[n][row] = sees ? s : -INFINITY;
      }
    }
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
    for (int n = thread_ / D; n < count; n += across) {
      const std::uint16_t* const v =
          row_of(position(first + n), args_.first_v, args_.recent_v) + thread_ % D;
#pragma unroll
      for (int c = 0; c < columns; ++c) {
        if (thread_ % D + c * decode_threads >= args_.d) continue;
        const float x = __uint_as_float(static_cast<std::uint32_t>(v[c * decode_threads]) << 16);
#pragma unroll
        for (int row = 0; row < Rows; ++row)  // a token that a row does not see may hold anything
          o[row][c] =
              shared().p[n][row] == 0.0f ? o[row][c] : __fmaf_rn(shared().p[n][row], x, o[row][c]);
      }
    }
  }

  __device__ void store(float (&o)[Rows][columns]) {
    if constexpr (across > 1) {  // two threads have an element
      if (thread_ >= D)
#pragma unroll
        for (int row = 0; row < Rows; ++row) shared().halves[row * D + thread_ - D] = o[row][0];
      __syncthreads();
      if (thread_ >= D) return;
#pragma unroll
      for (int row = 0; row < Rows; ++row)
        o[row][0] = __fadd_rn(o[row][0], shared().halves[row * D + thread_]);
    }
#pragma unroll
    for (int row = 0; row < Rows; ++row) {
      if (row >= item_.count) break;
#pragma unroll
      for (int c = 0; c < columns; ++c)
        store_part<D, Rows>(args_, item_, args_.splits, row, thread_ + c * decode_threads,
                            o[row][c]);
      if (thread_ == 0)
        store_mark<D, Rows>(args_, item_, args_.splits, row, shared().reference[row],
                            shared().weight[row]);
    }
  }

  const AttentionDecodeArgs& args_;
  const DecodeItem item_;
  const int thread_, lane_, warp_;
};

}  // namespace microscale::cuda
