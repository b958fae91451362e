// Attention with AVX-512.
#include "seam/attention_kernels.hpp"
#include "cpu/avx512/attention_products.hpp"
#include "cpu/avx512/kernels.hpp"
#include "cpu/avx512/vector.hpp"
#include "cpu/matmul_rows.hpp"

MICROSCALE_AVX512_BEGIN
#include "cpu/generic/dense.hpp"
#include "cpu/avx512/decoders.hpp"

class CodedKeys;
struct NoCodedKeys;

struct LongSteps {
  using Coded = CodedKeys;
  using Nvfp4 = avx512::Nvfp4;
  using Mxfp4 = avx512::Mxfp4;
  template <bool FiveExponentBits>
  using Mxfp8 = avx512::Mxfp8<FiveExponentBits>;
};
struct ShortSteps {
  using Coded = NoCodedKeys;
  using Nvfp4 = ShortNvfp4;
  using Mxfp4 = ShortMxfp4;
  template <bool FiveExponentBits>
  using Mxfp8 = avx512::Mxfp8<FiveExponentBits, 64>;
};

inline constexpr int attention_sums = 16;

constexpr int place_of_sum(int sum) { return 4 * (sum % 4) + sum / 4; }

/// Halves of lanes are added until one is left, of two vectors at a time.
template <int Cols>
inline void put_sums(const Float* v, std::int64_t stride, float* output) {
  static_assert(Cols % 4 == 0);
  Float s[8];
  MICROSCALE_UNROLL
  for (int i = 0; i < 8; ++i)  // 128 bits: two of vector 2 i, two of 2 i + 1
    s[i] = add(_mm512_shuffle_f32x4(v[2 * i], v[2 * i + 1], 0x44),
               _mm512_shuffle_f32x4(v[2 * i], v[2 * i + 1], 0xEE));
  MICROSCALE_UNROLL
  for (int i = 0; i < 4; ++i)  // 128 bits of each of vectors 4 i to 4 i + 3
    s[i] = add(_mm512_shuffle_f32x4(s[2 * i], s[2 * i + 1], 0x88),
               _mm512_shuffle_f32x4(s[2 * i], s[2 * i + 1], 0xDD));
  MICROSCALE_UNROLL
  for (int i = 0; i < 2; ++i)
    s[i] =
        add(_mm512_unpacklo_ps(s[2 * i], s[2 * i + 1]), _mm512_unpackhi_ps(s[2 * i], s[2 * i + 1]));
  const __m512d a = _mm512_castps_pd(s[0]), b = _mm512_castps_pd(s[1]);
  const Float sums =
      add(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)), _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
  _mm_storeu_ps(output, _mm512_castps512_ps128(sums));
  _mm_storeu_ps(output + 4 / Cols * stride + 4 % Cols, _mm512_extractf32x4_ps(sums, 1));
  _mm_storeu_ps(output + 8 / Cols * stride + 8 % Cols, _mm512_extractf32x4_ps(sums, 2));
  _mm_storeu_ps(output + 12 / Cols * stride + 12 % Cols, _mm512_extractf32x4_ps(sums, 3));
}

#include "cpu/generic/attention_softmax.hpp"
#include "cpu/generic/decode_run.hpp"
#include "cpu/generic/attention_sides.hpp"

inline Int add_dot16(Int sum, Int a, Int b) { return add32(sum, dot16(a, b)); }

#include "cpu/avx512/attention_integers.hpp"
#include "cpu/avx512/attention_codes.hpp"
#include "cpu/generic/attention_runs.hpp"
#include "cpu/generic/attention_rows.hpp"
#include "cpu/generic/attention.hpp"
MICROSCALE_AVX512_END

namespace microscale {
const avx512::AttentionProducts avx512_products = avx512::attention_products;
const AttentionKernels avx512_attention = avx512::attention_kernels();
}  // namespace microscale
