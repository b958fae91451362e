// The two rows that a thread of a computing warpgroup has in the accumulators of wgmma: which keys
// they see, their running softmax, and how they leave.
//
// Probabilities are 2^(score - reference), scores in powers of two. A reference starts `headroom`
// below the largest score of the row's first tile and moves only when a score is `most` above it,
// so what has been summed is hardly ever multiplied again.
#pragma once

#include <cfloat>
#include <cstdint>

#include "cuda/attention/codes.cuh"
#include "cuda/attention/prefill/item.cuh"
#include "cuda/attention/prefill/args.hpp"
#include "cuda/attention/rows.cuh"
#include "cuda/matmul/product_output.cuh"
#include "cuda/ptx/memory.cuh"
#include "cuda/ptx/scalar.cuh"

namespace microscale::cuda::attention::prefill {

struct F16Probabilities {
  static constexpr float headroom = decode_headroom, most = decode_most;
  static constexpr bool shifted = true;  // V's exponents are in them
};

/// `Probabilities`: how far they may be from their reference.
template <int Keys, bool Softcap, class Probabilities>
struct PrefillRowPair {
  static constexpr int count = Keys / 2;  // scores of a thread
  int begin[2], end[2];                   // keys seen
  float factor[2];                        // of scores
  float reference[2], weight[2];
  int v_exponent;    // sums are to be multiplied by 2^ of it
  float sums_by[2];  // what sums are to be multiplied by before the next tile's

  __device__ void start(const AttentionPrefillArgs& args, const PrefillItem& item, int row,
                        const float* factors) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int own = min(row + 8 * i, item.count - 1);
      begin[i] = item.begin(args, own);
      end[i] = item.end(args, own);
      factor[i] = factors[row + 8 * i];
      reference[i] = decode_no_reference;
      weight[i] = 0.0f;
    }
    v_exponent = Probabilities::shifted ? -127 : 0;
  }

  /// softcap * tanh(x / softcap) by an exponential.
  __device__ void cap(float softcap, const float (&by)[2], float (&s)[count]) const {
    const float inner = __fdiv_rn(2.8853900817779268f, softcap);  // 2 / ln 2
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const float e = ptx::ex2_approx_ftz_f32(__fmul_rn(s[i], __fmul_rn(by[i / 2 % 2], inner)));
      s[i] = __fmaf_rn(-2.0f * softcap, ptx::rcp_approx_ftz_f32(__fadd_rn(1.0f, e)), softcap);
    }
  }

  __device__ void mask(const PrefillTile& tile, int first, float (&s)[count]) const {
    const int lane = static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const int column = i / 4 * 8 + i % 2, key = first + column + lane, half = i / 2 % 2;
      const bool present = tile.present[column / 32] >> (column % 32 + lane) & 1;
      if (!present || key < begin[half] || key >= end[half]) s[i] = -INFINITY;
    }
  }

  /// Scores of a tile become probabilities.
  template <bool Masked>
  __device__ void take(const AttentionPrefillArgs& args, const PrefillTile& tile, int first,
                       float (&s)[count]) {
    const float power = power_of_two(tile.k_exponent);
    float by[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) by[i] = fmaxf(__fmul_rn(factor[i], power), FLT_MIN);
    if constexpr (Softcap) {
      cap(args.softcap_log2, by, s);
      by[0] = by[1] = 1.0f;
    }
    if constexpr (Masked) mask(tile, first, s);
    float largest[2], other[2];  // two chains a row
#pragma unroll
    for (int i = 0; i < 2; ++i) largest[i] = s[2 * i], other[i] = s[2 * i + 1];
#pragma unroll
    for (int i = 4; i < count; i += 2) {
      largest[i / 2 % 2] = fmaxf(largest[i / 2 % 2], s[i]);
      other[i / 2 % 2] = fmaxf(other[i / 2 % 2], s[i + 1]);
    }
    float v_by = 1.0f, back = 1.0f;
    int shift = 0;
    if constexpr (Probabilities::shifted) {
      const int before = v_exponent;
      v_exponent = max(v_exponent, tile.v_exponent);
      v_by = power_of_two(max(before - v_exponent, -127));
      shift = max(tile.v_exponent - v_exponent, -60);
      back = power_of_two(-shift);
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      largest[i] = fmaxf(largest[i], other[i]);
      largest[i] = fmaxf(largest[i], __shfl_xor_sync(~0u, largest[i], 1));
      largest[i] = fmaxf(largest[i], __shfl_xor_sync(~0u, largest[i], 2));
      const float score = __fmul_rn(largest[i], by[i]);
      const bool higher = __fsub_rn(score, reference[i]) > Probabilities::most;
      const float now = higher ? __fsub_rn(score, Probabilities::headroom) : reference[i];
      const float change = ptx::ex2_approx_ftz_f32(__fsub_rn(reference[i], now));
      reference[i] = now;
      weight[i] = __fmul_rn(weight[i], change);
      sums_by[i] = __fmul_rn(change, v_by);
      const float down = __fsub_rn(static_cast<float>(shift), now);
      float sum = 0.0f;
#pragma unroll
      for (int j = 0; j < count / 2; ++j) {
        float& x = s[j / 2 * 4 + 2 * i + j % 2];
        x = ptx::ex2_approx_ftz_f32(__fmaf_rn(x, by[i], down));
        sum = __fadd_rn(sum, x);
      }
      weight[i] = __fmaf_rn(sum, back, weight[i]);
    }
  }

  /// All keys are taken: what sums are to be multiplied by, and the log-sum-exp.
  __device__ void finish(const AttentionPrefillArgs& args, const PrefillItem& item, int row,
                         float (&by)[2]) {
    const float global = args.globals[1] ? *args.globals[1] : 1.0f;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      weight[i] = __fadd_rn(weight[i], __shfl_xor_sync(~0u, weight[i], 1));
      weight[i] = __fadd_rn(weight[i], __shfl_xor_sync(~0u, weight[i], 2));
      float change = 1.0f;
      const int own = row + 8 * i;
      if (own >= item.count) continue;
      if (args.sinks) {
        const float sink = __fmul_rn(args.sinks[item.head(args, own)], 1.4426950408889634f);
        const float now = fmaxf(reference[i], __fsub_rn(sink, Probabilities::headroom));
        change = ptx::ex2_approx_ftz_f32(__fsub_rn(reference[i], now));
        weight[i] =
            __fadd_rn(__fmul_rn(weight[i], change), ptx::ex2_approx_ftz_f32(__fsub_rn(sink, now)));
        reference[i] = now;
      }
      by[i] = __fmul_rn(__fmul_rn(global, power_of_two(v_exponent)), __fdiv_rn(change, weight[i]));
      if (args.log_sum_exp && threadIdx.x % 4 == 0)
        args.log_sum_exp[item.token(args, own) * args.keys.heads * args.group +
                         item.head(args, own)] =
            weight[i] == 0.0f
                ? -INFINITY
                : __fadd_rn(__fmul_rn(reference[i], 0.6931471805599453f), logf(weight[i]));
    }
  }
};

// Rows of the result from the accumulators of wgmma: a thread has pairs of neighbours of two rows,
// four threads a row. For 16-bit results they trade until each has eight neighbours.

/// Word i of lane t of four becomes word t of lane i.
__device__ inline void transpose_four(std::uint32_t (&w)[4]) {
  const std::uint32_t lane = threadIdx.x % 4;
#pragma unroll
  for (int distance = 1; distance <= 2; distance *= 2) {
    const bool upper = lane & distance;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i & distance) continue;
      const std::uint32_t sent = upper ? w[i] : w[i + distance];
      const std::uint32_t got = __shfl_xor_sync(~0u, sent, distance);
      if (upper)
        w[i] = got;
      else
        w[i + distance] = got;
    }
  }
}

/// Rows `row` and row + 8 of the item: sums times `by`; 0 where nothing was seen.
template <int Width>
__device__ void store_prefill_rows(const AttentionPrefillArgs& args, const PrefillItem& item,
                                   int row, const float (&weight)[2], const float (&by)[2],
                                   const float (&o)[Width / 2]) {
  const auto type = static_cast<DType>(args.output.type);
  const int lane = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const bool here = row + 8 * half < item.count;
    const std::int64_t at = here ? item.place(args, args.output, row + 8 * half) : 0;
    char* const to = static_cast<char*>(args.output.data) + at * (type == DType::f32 ? 4 : 2);
    const auto value = [&](int i) {
      return weight[half] == 0.0f ? 0.0f : __fmul_rn(o[i / 2 * 4 + 2 * half + i % 2], by[half]);
    };
#pragma unroll
    for (int first = 0; first < Width; first += 32) {  // columns; d is a multiple of 32
      if (first >= args.keys.d) break;
      const int i = first / 4;
      if (type == DType::f32) {
#pragma unroll
        for (int j = 0; j < 4; ++j)
          if (here)
            ptx::st_global_v2(to + (first + 8 * j + 2 * lane) * 4,
                              __float_as_uint(value(i + 2 * j)),
                              __float_as_uint(value(i + 2 * j + 1)));
        continue;
      }
      std::uint32_t w[4];
#pragma unroll
      for (int j = 0; j < 4; ++j)
        w[j] = type == DType::f16 ? ptx::cvt_rn_f16x2_f32(value(i + 2 * j), value(i + 2 * j + 1))
                                  : ptx::cvt_rn_bf16x2_f32(value(i + 2 * j), value(i + 2 * j + 1));
      transpose_four(w);
      if (here) ptx::st_global_v4(to + (first + 8 * lane) * 2, make_uint4(w[0], w[1], w[2], w[3]));
    }
  }
}

}  // namespace microscale::cuda::attention::prefill
