// Matrix products with AVX2.
#include "cpu/avx2/kernels.hpp"
#include "cpu/avx2/vector.hpp"
#include "cpu/matmul_rows.hpp"
#include "formats/producers.hpp"

MICROSCALE_AVX2_BEGIN
#include "cpu/generic/dense.hpp"
#include "cpu/avx2/decoders.hpp"
#include "cpu/avx2/matmul_sizes.hpp"
#include "cpu/generic/activations.hpp"
#include "cpu/generic/decode_run.hpp"
#include "cpu/generic/matmul_inputs.hpp"
#include "cpu/generic/matmul_dot.hpp"
#include "cpu/generic/matmul_many.hpp"
#include "cpu/generic/matmul_outer.hpp"
#include "cpu/avx2/sum_words.hpp"
#include "cpu/generic/matmul_codes.hpp"
#include "cpu/generic/matmul_integers.hpp"
#include "cpu/generic/matmul_range.hpp"

inline auto multiply_integers() { return &multiply_codes; }

#include "cpu/generic/matmul_table.hpp"
MICROSCALE_AVX2_END

namespace microscale {
const MatmulKernels avx2_matmul = avx2::vector_kernels();
}
