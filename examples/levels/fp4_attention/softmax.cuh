// Online softmax, and the sum of values in FP32: what is left of the scores never leaves registers.
//
// A lane has of row g and row g + 8 the scores of keys 2 t and 2 t + 1, and the sums of elements 8
// i
// + 2 t and the next of every eight. So a row's largest score is found by two exchanges among four
// lanes, and each weight is fetched from the lane that has it.
//
// The running sums are not normalised: o and l are both multiplied by 2^(old maximum - new) and o
// is divided by l once, at the end. (The article's formula divides by the new l at each step, which
// would have to multiply by the old one first; its code does as this.)
#pragma once

#include <cmath>

#include "cuda/ptx/scalar.cuh"
#include "product.cuh"

namespace levels {

template <int D>
struct RowSums {
  float largest[2] = {-INFINITY, -INFINITY};
  float l[2] = {};  // this lane's keys only, until store()
  float o[2][D / 8][2] = {};

  /// Eight keys. `value(key, element)` is v of key 0 to 7 at element and element + 1.
  template <class Value>
  __device__ void add(const float (&s)[4], float scale, const Lane& lane, const Value& value) {
    using namespace microscale;
    float p[2][2];
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const float x = __fmul_rn(s[2 * row], scale), y = __fmul_rn(s[2 * row + 1], scale);
      float most = fmaxf(x, y);
      most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
      most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
      most = fmaxf(most, largest[row]);
      const float factor = ptx::ex2_approx_ftz_f32(__fsub_rn(largest[row], most));
      largest[row] = most;
      p[row][0] = ptx::ex2_approx_ftz_f32(__fsub_rn(x, most));
      p[row][1] = ptx::ex2_approx_ftz_f32(__fsub_rn(y, most));
      l[row] = __fmaf_rn(l[row], factor, __fadd_rn(p[row][0], p[row][1]));
#pragma unroll
      for (auto& pair : o[row])
        pair[0] = __fmul_rn(pair[0], factor), pair[1] = __fmul_rn(pair[1], factor);
    }
#pragma unroll
    for (int key = 0; key < 8; ++key) {
      const int holder = 4 * lane.g + key / 2;
      const float upper = __shfl_sync(~0u, p[0][key % 2], holder);
      const float lower = __shfl_sync(~0u, p[1][key % 2], holder);
#pragma unroll
      for (int i = 0; i < D / 8; ++i) {
        const float2 v = value(key, 8 * i + 2 * lane.t);
        o[0][i][0] = __fmaf_rn(upper, v.x, o[0][i][0]);
        o[0][i][1] = __fmaf_rn(upper, v.y, o[0][i][1]);
        o[1][i][0] = __fmaf_rn(lower, v.x, o[1][i][0]);
        o[1][i][1] = __fmaf_rn(lower, v.y, o[1][i][1]);
      }
    }
  }

  /// To the head's 64 rows of D.
  __device__ void store(float* to, const Lane& lane) {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      l[row] = __fadd_rn(l[row], __shfl_xor_sync(~0u, l[row], 1));
      l[row] = __fadd_rn(l[row], __shfl_xor_sync(~0u, l[row], 2));
      const float share = __fdiv_rn(1.0f, l[row]);
      float* out = to + (lane.query + 8 * row) * D + 2 * lane.t;
#pragma unroll
      for (int i = 0; i < D / 8; ++i)
        *reinterpret_cast<float2*>(out + 8 * i) =
            make_float2(__fmul_rn(o[row][i][0], share), __fmul_rn(o[row][i][1], share));
    }
  }
};

}  // namespace levels
