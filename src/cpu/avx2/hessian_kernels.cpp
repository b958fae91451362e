// Kernels of the quantizers that take a Hessian, with AVX2.
#include "cpu/avx2/kernels.hpp"
#include "cpu/avx2/vector.hpp"
#include "formats/nvfp4.hpp"
#include "seam/hessian_kernels.hpp"

MICROSCALE_AVX2_BEGIN
#include "cpu/generic/dense.hpp"
#include "cpu/generic/block_max.hpp"
#include "cpu/generic/scale_e8m0.hpp"
#include "cpu/generic/round_element.hpp"
#include "cpu/generic/scale_nvfp4.hpp"

using Double = __m256d;
inline constexpr int double_lanes = 4;
inline Double load_double(const double* p) { return _mm256_loadu_pd(p); }
inline void store_double(double* p, Double v) { _mm256_storeu_pd(p, v); }
inline Double set_double(double v) { return _mm256_set1_pd(v); }
inline Double subtract_product(Double a, Double b, Double c) { return _mm256_fnmadd_pd(a, b, c); }
inline constexpr int factor_rows = 4, product_columns = 4, candidates_at_once = 2;

#include "cpu/generic/hessian_kernels.hpp"
MICROSCALE_AVX2_END

namespace microscale {
const HessianKernels avx2_hessian_kernels{.eliminate = avx2::eliminate,
                                          .solve = avx2::solve,
                                          .add_products = avx2::add_products,
                                          .quantize = avx2::quantize_hessian_rows};
}  // namespace microscale
