// Largest magnitude of FP32, FP16 and BF16 with AVX-512.
#include "cpu/avx512/kernels.hpp"
#include "cpu/avx512/vector.hpp"

MICROSCALE_AVX512_BEGIN
#include "cpu/generic/abs_max.hpp"

AbsMaxRun abs_max(const void* input, DType type, std::int64_t count) {
  return abs_max_run(input, type, count);
}
MICROSCALE_AVX512_END
