// Matrix products with AVX2: dot products on FP32 vectors.
#include "cpu/avx2/kernels.hpp"
#include "cpu/avx2/vector.hpp"
#include "cpu/matmul_rows.hpp"
#include "formats/activations.hpp"
#include "formats/producers.hpp"

MICROSCALE_AVX2_BEGIN
#include "cpu/generic/dense.hpp"
#include "cpu/avx2/decoders.hpp"
#include "cpu/generic/activations.hpp"
#include "cpu/generic/matmul_table.hpp"
MICROSCALE_AVX2_END

namespace microscale {
const MatmulKernels avx2_matmul = avx2::dot_kernels();
}
