// Attention with AVX-512.
#include "core/attention_kernels.hpp"
#include "cpu/avx512/kernels.hpp"
#include "cpu/avx512/vector.hpp"
#include "cpu/matmul_rows.hpp"

MICROSCALE_AVX512_BEGIN
#include "cpu/generic/dense.hpp"
#include "cpu/avx512/decoders.hpp"

/// Both halves of a vector, added.
inline __m256 fold(Float v) {
  return _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
}

/// The sum of the lanes of each of eight vectors.
inline void sum_eight(const Float* v, float* output) {
  const __m256 a = _mm256_hadd_ps(_mm256_hadd_ps(fold(v[0]), fold(v[1])),
                                  _mm256_hadd_ps(fold(v[2]), fold(v[3]))),
               b = _mm256_hadd_ps(_mm256_hadd_ps(fold(v[4]), fold(v[5])),
                                  _mm256_hadd_ps(fold(v[6]), fold(v[7])));
  _mm256_storeu_ps(output, _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20),
                                         _mm256_permute2f128_ps(a, b, 0x31)));
}

#include "cpu/generic/attention_softmax.hpp"
#include "cpu/generic/decode_run.hpp"
#include "cpu/generic/attention.hpp"
MICROSCALE_AVX512_END

namespace microscale {
const AttentionKernels avx512_attention = avx512::attention_kernels();
}
