// Rows for append_kv and the fused operations with AVX-512.
#include "cpu/avx512/kernels.hpp"
#include "cpu/avx512/vector.hpp"
#include "formats/producers.hpp"
#include "reference/kv_rows.hpp"
#include "reference/producers.hpp"

MICROSCALE_AVX512_BEGIN
#include "cpu/generic/dense.hpp"
#include "cpu/generic/scale_e8m0.hpp"
#include "cpu/generic/round_element.hpp"
#include "cpu/generic/activations.hpp"
#include "cpu/generic/hadamard.hpp"
#include "cpu/generic/kv_rows.hpp"
#include "cpu/generic/producers.hpp"
MICROSCALE_AVX512_END

namespace microscale {
const RowKernels avx512_rows{.to_floats = avx512::to_floats,
                             .transform_key = avx512::transform_row,
                             .quantize_fp8 = avx512::fp8_row,
                             .silu_mul = avx512::silu_mul,
                             .rms_norm = avx512::rms_norm,
                             .hadamard = avx512::hadamard};
}  // namespace microscale
