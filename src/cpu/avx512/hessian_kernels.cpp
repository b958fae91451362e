// Kernels of the quantizers that take a Hessian, with AVX-512.
#include "cpu/avx512/kernels.hpp"
#include "cpu/avx512/vector.hpp"
#include "formats/nvfp4.hpp"
#include "seam/hessian_kernels.hpp"

MICROSCALE_AVX512_BEGIN
#include "cpu/generic/dense.hpp"
#include "cpu/generic/block_max.hpp"
#include "cpu/generic/scale_e8m0.hpp"
#include "cpu/generic/round_element.hpp"
#include "cpu/generic/scale_nvfp4.hpp"

using Double = __m512d;
inline constexpr int double_lanes = 8;
inline Double load_double(const double* p) { return _mm512_loadu_pd(p); }
inline void store_double(double* p, Double v) { _mm512_storeu_pd(p, v); }
inline Double set_double(double v) { return _mm512_set1_pd(v); }
inline Double subtract_product(Double a, Double b, Double c) { return _mm512_fnmadd_pd(a, b, c); }
inline constexpr int factor_rows = 8, product_columns = 8, candidates_at_once = 5;

#include "cpu/generic/hessian_kernels.hpp"
MICROSCALE_AVX512_END

namespace microscale {
const HessianKernels avx512_hessian_kernels{.eliminate = avx512::eliminate,
                                            .solve = avx512::solve,
                                            .add_products = avx512::add_products,
                                            .quantize = avx512::quantize_hessian_rows};
}  // namespace microscale
