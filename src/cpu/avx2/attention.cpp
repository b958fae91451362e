// Attention with AVX2.
#include "core/attention_kernels.hpp"
#include "cpu/avx2/kernels.hpp"
#include "cpu/avx2/vector.hpp"
#include "cpu/matmul_rows.hpp"

MICROSCALE_AVX2_BEGIN
#include "cpu/generic/dense.hpp"
#include "cpu/avx2/decoders.hpp"

/// The sum of the lanes of each of eight vectors.
inline void sum_eight(const Float* v, float* output) {
  const Float a = _mm256_hadd_ps(_mm256_hadd_ps(v[0], v[1]), _mm256_hadd_ps(v[2], v[3])),
              b = _mm256_hadd_ps(_mm256_hadd_ps(v[4], v[5]), _mm256_hadd_ps(v[6], v[7]));
  store_float(output, add(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31)));
}

#include "cpu/generic/attention_softmax.hpp"
#include "cpu/generic/decode_run.hpp"
#include "cpu/generic/attention.hpp"
MICROSCALE_AVX2_END

namespace microscale {
const AttentionKernels avx2_attention = avx2::attention_kernels();
}
