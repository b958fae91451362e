// Matrix products with AVX-512.
#include "cpu/avx512/kernels.hpp"
#include "cpu/avx512/vector.hpp"
#include "cpu/matmul_rows.hpp"
#include "formats/producers.hpp"

MICROSCALE_AVX512_BEGIN
#include "cpu/generic/dense.hpp"
#include "cpu/avx512/decoders.hpp"
#include "cpu/avx512/matmul_sizes.hpp"
#include "cpu/generic/activations.hpp"
#include "cpu/generic/decode_run.hpp"
#include "cpu/generic/matmul_inputs.hpp"
#include "cpu/generic/matmul_dot.hpp"
#include "cpu/generic/matmul_many.hpp"
#include "cpu/generic/matmul_outer.hpp"
#include "cpu/generic/matmul_codes.hpp"
#include "cpu/generic/matmul_range.hpp"

/// Without VNNI a word of codes would take three instructions, and FP32 is as fast.
inline auto multiply_integers() {
  static const bool has_vnni = __builtin_cpu_supports("avx512vnni");
  return has_vnni ? &vnni::multiply_codes : nullptr;
}

#include "cpu/generic/matmul_table.hpp"
MICROSCALE_AVX512_END

namespace microscale {
const MatmulKernels avx512_matmul = avx512::vector_kernels();
}
