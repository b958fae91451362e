// The end of a matrix product: from FP32 sums to elements of d, as ProductOutput has it. Every
// kernel of the family ends here, so that a sum becomes the same element whichever made it.
#pragma once

#include <cstdint>

#include "cuda/matmul/args.hpp"
#include "cuda/ptx/scalar.cuh"
#include "formats/producers.hpp"
#include "microscale/format.hpp"

namespace microscale::cuda {

__device__ inline float load_element(const void* data, std::int32_t type, std::int64_t index) {
  if (static_cast<DType>(type) == DType::f32) return static_cast<const float*>(data)[index];
  const std::uint32_t bits = static_cast<const std::uint16_t*>(data)[index];
  return static_cast<DType>(type) == DType::f16 ? ptx::cvt_f32_f16(bits)
                                                : __uint_as_float(bits << 16);
}

/// Nearest even; a NaN becomes the canonical one of the type, as on every backend.
__device__ inline void store_element(void* data, std::int32_t type, std::int64_t index, float x) {
  if (static_cast<DType>(type) == DType::f32) {
    static_cast<float*>(data)[index] = x == x ? x : canonical_nan();
    return;
  }
  const std::uint32_t bits = static_cast<DType>(type) == DType::f16
                                 ? ptx::cvt_rn_f16x2_f32(x, 0.0f)
                                 : ptx::cvt_rn_bf16x2_f32(x, 0.0f);
  static_cast<std::uint16_t*>(data)[index] = static_cast<std::uint16_t>(bits);
}

/// What the sums of a matrix are multiplied by.
struct ProductFactors {
  float sum, up;
};
__device__ inline ProductFactors product_factors(const ProductOutput& out, std::int64_t matrix) {
  const float a = out.a_global == nullptr ? 1.0f : out.a_global[matrix * out.a_global_step];
  const float b = out.b_global == nullptr ? 1.0f : out.b_global[matrix * out.b_global_step];
  const float up = out.up_global == nullptr ? 1.0f : out.up_global[matrix * out.b_global_step];
  return {__fmul_rn(__fmul_rn(a, b), out.alpha), __fmul_rn(__fmul_rn(a, up), out.alpha)};
}

/// What is added to a column's products; -0, which changes nothing, where there is no bias.
struct ProductBias {
  float sum, up;
};
__device__ inline ProductBias product_bias(const ProductOutput& out, std::int64_t matrix,
                                           std::int64_t col) {
  const auto at = [&](const void* bias, std::int32_t type) {
    return bias == nullptr ? -0.0f : load_element(bias, type, matrix * out.bias_matrix + col);
  };
  return {at(out.bias, out.bias_type), out.gated ? at(out.up_bias, out.up_bias_type) : -0.0f};
}

/// One element of d before its rounding. `up_sum` counts where Gated; `weight` is the row's, 1
/// where there is none.
template <bool Gated>
__device__ inline float finished(const ProductOutput& out, const ProductFactors& factors,
                                 const ProductBias& bias, float weight, float sum, float up_sum) {
  float value = __fmaf_rn(sum, factors.sum, bias.sum);
  if constexpr (Gated) {
    const float up = __fmaf_rn(up_sum, factors.up, bias.up);
    value = out.gelu ? gelu_tanh_mul(value, up) : silu_mul(clamp_gate(value), 0.0f, up, 0.0f).first;
  }
  return __fmul_rn(value, weight);
}

/// The same in column `col` of matrix `matrix`, row `row` of all rows.
__device__ inline float finished(const ProductOutput& out, const ProductFactors& factors,
                                 std::int64_t matrix, std::int64_t row, std::int64_t col, float sum,
                                 float up_sum) {
  const ProductBias bias = product_bias(out, matrix, col);
  const float weight = out.row_weights == nullptr ? 1.0f : out.row_weights[row];
  return out.gated ? finished<true>(out, factors, bias, weight, sum, up_sum)
                   : finished<false>(out, factors, bias, weight, sum, up_sum);
}

/// Finishes and stores it. `row` counts all matrices' rows where grouped, else the matrix's own.
__device__ inline void store_product(const ProductOutput& out, const ProductFactors& factors,
                                     std::int64_t matrix, std::int64_t row, std::int64_t col,
                                     float sum, float up_sum) {
  store_element(out.d, out.d_type, matrix * out.d_matrix + row * out.d_stride + col,
                finished(out, factors, matrix, row, col, sum, up_sum));
}

}  // namespace microscale::cuda
