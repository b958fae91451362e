// Attention with AVX2.
#include "seam/attention_kernels.hpp"
#include "cpu/avx2/kernels.hpp"
#include "cpu/avx2/vector.hpp"
#include "cpu/matmul_rows.hpp"

MICROSCALE_AVX2_BEGIN
#include "cpu/generic/dense.hpp"
#include "cpu/avx2/decoders.hpp"

struct NoCodedKeys;

struct LongSteps {
  using Coded = NoCodedKeys;
  using Nvfp4 = avx2::Nvfp4;
  using Mxfp4 = avx2::Mxfp4;
  template <bool FiveExponentBits>
  using Mxfp8 = avx2::Mxfp8<FiveExponentBits>;
};
using ShortSteps = LongSteps;

inline constexpr int attention_sums = 8;

constexpr int place_of_sum(int sum) { return sum; }

template <int Cols>
inline void put_sums(const Float* v, std::int64_t stride, float* output) {
  static_assert(Cols % 2 == 0);
  const Float a = _mm256_hadd_ps(_mm256_hadd_ps(v[0], v[1]), _mm256_hadd_ps(v[2], v[3])),
              b = _mm256_hadd_ps(_mm256_hadd_ps(v[4], v[5]), _mm256_hadd_ps(v[6], v[7]));
  const __m256d sums =
      _mm256_castps_pd(add(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31)));
  const __m128d low = _mm256_castpd256_pd128(sums), high = _mm256_extractf128_pd(sums, 1);
  _mm_storel_pd(reinterpret_cast<double*>(output), low);
  _mm_storeh_pd(reinterpret_cast<double*>(output + 2 / Cols * stride + 2 % Cols), low);
  _mm_storel_pd(reinterpret_cast<double*>(output + 4 / Cols * stride + 4 % Cols), high);
  _mm_storeh_pd(reinterpret_cast<double*>(output + 6 / Cols * stride + 6 % Cols), high);
}

#include "cpu/generic/attention_softmax.hpp"
#include "cpu/generic/decode_run.hpp"
#include "cpu/generic/attention_sides.hpp"
#include "cpu/generic/attention_runs.hpp"
#include "cpu/generic/attention_rows.hpp"
#include "cpu/generic/attention.hpp"
MICROSCALE_AVX2_END

namespace microscale {
const AttentionKernels avx2_attention = avx2::attention_kernels();
}
