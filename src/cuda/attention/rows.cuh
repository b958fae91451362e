// The rows of an item, and which keys they see; how results leave.
#pragma once

#include <cfloat>
#include <cstdint>

#include "cuda/attention/args.hpp"
#include "layouts/kv_page.hpp"
#include "cuda/ptx/memory.cuh"
#include "cuda/ptx/scalar.cuh"
#include "cuda/matmul/product_output.cuh"

namespace microscale::cuda::attention {

/// References of sums are this much below the largest score, in powers of two: probabilities in
/// FP16 are at most 2^15, and those of 2^-26 of the largest one still normal numbers.
inline constexpr float decode_headroom = 12.0f, decode_most = 15.0f;
/// The reference of no key.
inline constexpr float decode_no_reference = -FLT_MAX;

/// Rows [first, first + count) of one sequence and kv head.
struct DecodeItem {
  int index, sequence, kv_head;
  std::int64_t q_first;  // q's token of the sequence's first query, as batch * q_tokens + token
  int length, q_length;  // of the sequence
  int first, count;
  int paged_begin, paged_end;  // keys that are read from pages

  __device__ DecodeItem(const AttentionDecodeArgs& args, int item, int rows)
      : DecodeItem(args, item, rows, [&](int s) { return args.lengths[s]; }) {}
  /// `length_of`: keys of a sequence.
  template <class LengthOf>
  __device__ DecodeItem(const AttentionDecodeArgs& args, int item, int rows, LengthOf&& length_of)
      : index(item) {
    const int of_head = args.by_passes.divide(item);
    sequence = args.by_kv_heads.divide(of_head);
    kv_head = of_head - sequence * args.kv_heads;
    std::int64_t begin = static_cast<std::int64_t>(sequence) * args.q_tokens,
                 end = begin + args.q_tokens;
    if (args.q_offsets) {
      begin = clamp(args.q_offsets[sequence], 0, args.q_tokens);
      end = clamp(args.q_offsets[sequence + 1], begin, args.q_tokens);
    }
    q_first = begin;
    q_length = static_cast<int>(clamp(end - begin, 0, args.most_q));
    length = static_cast<int>(clamp(length_of(sequence), 0, args.most_keys));
    const kv_page::Range paged =
        kv_page::paged_positions(length, args.first_count, args.recent_count);
    paged_begin = static_cast<int>(paged.begin);
    paged_end = static_cast<int>(paged.end);
    first = (item - of_head * args.passes) * rows;
    count =
        static_cast<int>(clamp(static_cast<std::int64_t>(q_length) * args.group - first, 0, rows));
  }
  __device__ static std::int64_t clamp(std::int64_t x, std::int64_t low, std::int64_t high) {
    return x < low ? low : x > high ? high : x;
  }

  /// Of the sequence.
  __device__ int query(const AttentionDecodeArgs& args, int row) const {
    return args.by_group.divide(first + row);
  }
  __device__ std::int64_t token(const AttentionDecodeArgs& args, int row) const {
    return q_first + query(args, row);
  }
  __device__ std::int64_t head(const AttentionDecodeArgs& args, int row) const {
    return static_cast<std::int64_t>(kv_head) * args.group + first + row -
           query(args, row) * args.group;
  }
  __device__ std::int64_t element(const AttentionDecodeArgs& args, const DecodeRows& rows,
                                  int row) const {
    const std::int64_t at = token(args, row);
    // With offsets q is one batch.
    const std::int64_t batch = args.q_offsets ? 0 : sequence;
    return batch * rows.batch + (at - batch * args.q_tokens) * rows.token +
           head(args, row) * rows.head;
  }
  /// Keys [begin, end) in pages that a row sees; end may be below begin.
  __device__ int begin(const AttentionDecodeArgs& args, int row) const {
    return max(first_seen(args, row), paged_begin);
  }
  __device__ int end(const AttentionDecodeArgs& args, int row) const {
    return min(end_seen(args, row), paged_end);
  }
  /// Of all keys.
  __device__ int first_seen(const AttentionDecodeArgs& args, int row) const {
    const std::int64_t at = length - q_length + query(args, row);
    return args.window > 0 && at - args.window + 1 > 0 ? static_cast<int>(at - args.window + 1) : 0;
  }
  __device__ int end_seen(const AttentionDecodeArgs& args, int row) const {
    const int at = length - q_length + query(args, row);
    return args.causal ? min(length, at + 1) : length;
  }
};

/// Eight elements, aligned to 16 bytes, as they lie in memory: FP32 takes both halves.
struct DecodeEight {
  uint4 first, second;
};
__device__ inline DecodeEight decode_load_eight(const DecodeRows& q, std::int64_t at) {
  const bool f32 = static_cast<DType>(q.type) == DType::f32;
  const char* const from = static_cast<const char*>(q.data) + at * (f32 ? 4 : 2);
  return {ptx::ld_global_nc_no_allocate_v4(from),
          f32 ? ptx::ld_global_nc_no_allocate_v4(from + 16) : uint4{}};
}
__device__ inline void decode_eight(const DecodeRows& q, const DecodeEight& eight, float* v) {
  const uint4 &a = eight.first, &b = eight.second;
  if (static_cast<DType>(q.type) == DType::f32) {
    v[0] = __uint_as_float(a.x), v[1] = __uint_as_float(a.y), v[2] = __uint_as_float(a.z);
    v[3] = __uint_as_float(a.w), v[4] = __uint_as_float(b.x), v[5] = __uint_as_float(b.y);
    v[6] = __uint_as_float(b.z), v[7] = __uint_as_float(b.w);
    return;
  }
  const std::uint32_t w[4] = {a.x, a.y, a.z, a.w};
  const bool f16 = static_cast<DType>(q.type) == DType::f16;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    v[2 * i] = f16 ? ptx::cvt_f32_f16(w[i]) : __uint_as_float(w[i] << 16);
    v[2 * i + 1] = f16 ? ptx::cvt_f32_f16(w[i] >> 16) : __uint_as_float(w[i] & 0xFFFF0000u);
  }
}

/// The orthonormal Hadamard transform of runs of 16.
template <int Count>
__device__ void decode_hadamard(float (&v)[Count]) {
#pragma unroll
  for (int i = 0; i < Count; i += 2) hadamard_first(v[i], v[i + 1], hadamard_scale(16));
#pragma unroll
  for (int distance = 2; distance < 16; distance *= 2)
#pragma unroll
    for (int i = 0; i < Count; ++i)
      if ((i & distance) == 0) hadamard_step(v[i], v[i + distance]);
}

/// A row's reference if its largest score is too high for it, and what its sums are multiplied by.
__device__ inline void decode_raise(float largest, float& reference, float& factor) {
#pragma unroll
  for (int lanes = 4; lanes < 32; lanes *= 2)
    largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, lanes));
  factor = 1.0f;
  if (!(__fsub_rn(largest, reference) > decode_most)) return;
  const float higher = __fsub_rn(largest, decode_headroom);
  factor = ptx::ex2_approx_ftz_f32(__fsub_rn(reference, higher));
  reference = higher;
}

__device__ inline void decode_cap(float cap, float& s) {
  s = __fmul_rn(cap, tanhf(__fdiv_rn(s, cap)));
}

/// A row's score with what the mean of K adds to it, capped.
__device__ inline void decode_change(const AttentionDecodeArgs& args, float mean_score, float& s) {
  if (args.mean) s = __fadd_rn(s, mean_score);
  if (args.softcap_log2 > 0.0f) decode_cap(args.softcap_log2, s);
}

/// Lets a head's sink into a row's weight; returns what the row's sums are multiplied by.
__device__ inline float decode_sink(const AttentionDecodeArgs& args, std::int64_t head,
                                    float& reference, float& weight) {
  if (!args.sinks) return 1.0f;
  const float sink = __fmul_rn(args.sinks[head], 1.4426950408889634f);
  const float higher = fmaxf(reference, __fsub_rn(sink, decode_headroom));
  const float factor = ptx::ex2_approx_ftz_f32(__fsub_rn(reference, higher));
  weight = __fadd_rn(__fmul_rn(weight, factor), ptx::ex2_approx_ftz_f32(__fsub_rn(sink, higher)));
  reference = higher;
  return factor;
}

__device__ inline void decode_store_log_sum_exp(const AttentionDecodeArgs& args,
                                                const DecodeItem& item, int row, float reference,
                                                float weight) {
  if (!args.log_sum_exp) return;
  const float lse = weight == 0.0f
                        ? -INFINITY
                        : __fadd_rn(__fmul_rn(reference, 0.6931471805599453f), logf(weight));
  args.log_sum_exp[item.token(args, row) * args.q_heads + item.head(args, row)] = lse;
}

/// Sums of a row: those of e^(s - reference) with v, at elements from `element` on, and their own.
template <int Count>
__device__ void decode_store(const AttentionDecodeArgs& args, const DecodeItem& item, int row,
                             int element, float reference, float weight,
                             const float (&sums)[Count]) {
  const float factor = decode_sink(args, item.head(args, row), reference, weight);
  const std::int64_t at = item.element(args, args.output, row) + element;
#pragma unroll
  for (int i = 0; i < Count; ++i)
    if (element + i < args.d)
      store_element(args.output.data, args.output.type, at + i,
                    weight == 0.0f ? 0.0f : __fdiv_rn(__fmul_rn(sums[i], factor), weight));
  if (element == 0) decode_store_log_sum_exp(args, item, row, reference, weight);
}

}  // namespace microscale::cuda::attention
