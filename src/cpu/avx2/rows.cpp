// Rows for append_kv and the fused operations with AVX2.
#include "cpu/avx2/kernels.hpp"
#include "cpu/avx2/vector.hpp"
#include "formats/producers.hpp"
#include "reference/kv_rows.hpp"
#include "reference/producers.hpp"

MICROSCALE_AVX2_BEGIN
#include "cpu/generic/dense.hpp"
#include "cpu/generic/scale_e8m0.hpp"
#include "cpu/generic/round_element.hpp"
#include "cpu/generic/activations.hpp"
#include "cpu/generic/hadamard.hpp"
#include "cpu/generic/kv_rows.hpp"
#include "cpu/generic/producers.hpp"
MICROSCALE_AVX2_END

namespace microscale {
const RowKernels avx2_rows{.to_floats = avx2::to_floats,
                           .transform_key = avx2::transform_row,
                           .quantize_fp8 = avx2::fp8_row,
                           .silu_mul = avx2::silu_mul,
                           .rms_norm = avx2::rms_norm,
                           .hadamard = avx2::hadamard};
}  // namespace microscale
