// Stochastic rounding with AVX2.
#include <cstring>

#include "cpu/avx2/kernels.hpp"
#include "cpu/avx2/vector.hpp"

MICROSCALE_AVX2_BEGIN
#include "cpu/generic/dense.hpp"
#include "cpu/generic/block_max.hpp"
#include "cpu/generic/scale_e8m0.hpp"
#include "cpu/generic/stochastic.hpp"

cpu::StochasticKernel round_stochastically(const QuantizeLines& call) {
  return stochastic_kernel(call.format, call.input_type);
}
MICROSCALE_AVX2_END
