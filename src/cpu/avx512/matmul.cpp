// Matrix products with AVX-512: dot products on FP32 vectors.
#include "cpu/avx512/kernels.hpp"
#include "cpu/avx512/vector.hpp"
#include "cpu/matmul_rows.hpp"
#include "formats/activations.hpp"
#include "formats/producers.hpp"

MICROSCALE_AVX512_BEGIN
#include "cpu/generic/dense.hpp"
#include "cpu/avx512/decoders.hpp"
#include "cpu/generic/activations.hpp"
#include "cpu/generic/matmul_table.hpp"
MICROSCALE_AVX512_END

namespace microscale {
const MatmulKernels avx512_matmul = avx512::dot_kernels();
}
