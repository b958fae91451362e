// Matrix products of FP4 codes as integers with AVX-512 VNNI: four products and their sum in one
// instruction a lane.
#include "cpu/avx512/kernels.hpp"
#include "cpu/avx512/vector.hpp"
#include "cpu/matmul_rows.hpp"

MICROSCALE_VNNI_BEGIN
using namespace microscale::avx512;
#include "cpu/generic/dense.hpp"
#include "cpu/avx512/matmul_sizes.hpp"
#include "cpu/generic/decode_run.hpp"
#include "cpu/generic/matmul_many.hpp"
#include "cpu/generic/matmul_codes.hpp"

inline Int sum_words(const Int (&x)[4], const std::int8_t* w, Int start) {
  Int sum = start;
  MICROSCALE_UNROLL
  for (int i = 0; i < 4; ++i) {
    std::uint32_t word;
    __builtin_memcpy(&word, w + 4 * i, sizeof word);
    sum = _mm512_dpbusd_epi32(sum, x[i], set32(word));
  }
  return sum;
}

#include "cpu/generic/matmul_integers.hpp"

MICROSCALE_VNNI_END
