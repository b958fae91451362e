// Rows for append_kv with AVX-512.
#include "cpu/avx512/kernels.hpp"
#include "cpu/avx512/vector.hpp"
#include "reference/kv_rows.hpp"

MICROSCALE_AVX512_BEGIN
#include "cpu/generic/dense.hpp"
#include "cpu/generic/scale_e8m0.hpp"
#include "cpu/generic/round_element.hpp"
#include "cpu/generic/kv_rows.hpp"

namespace {

void convert(const void* elements, DType type, std::int64_t count, float* output) {
  to_floats(elements, type, count, output);
}

}  // namespace
MICROSCALE_AVX512_END

namespace microscale {
const KvRowKernels avx512_kv_rows{.to_floats = avx512::convert,
                                  .transform_key = avx512::transform_row,
                                  .quantize_fp8 = avx512::fp8_row};
}  // namespace microscale
