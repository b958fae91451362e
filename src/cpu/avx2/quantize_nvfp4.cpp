// Dense to NVFP4 with AVX2.
#include "cpu/avx2/kernels.hpp"
#include "cpu/avx2/vector.hpp"
#include "formats/nvfp4.hpp"

MICROSCALE_AVX2_BEGIN
#include "cpu/generic/dense.hpp"
#include "cpu/generic/block_max.hpp"
#include "cpu/generic/scale_e8m0.hpp"
#include "cpu/generic/pack_fp4.hpp"
#include "cpu/generic/round_element.hpp"
#include "cpu/generic/scale_nvfp4.hpp"
#include "cpu/generic/quantize_nvfp4.hpp"
#include "cpu/avx2/nvfp4_steps.hpp"

cpu::QuantizeKernel quantize_nvfp4(const QuantizeLines& call) {
  return nvfp4_kernel<BySteps>(call);
}
MICROSCALE_AVX2_END
