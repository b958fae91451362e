// Dense to MXFP8 (E4M3 and E5M2) with AVX2.
#include "cpu/avx2/kernels.hpp"
#include "cpu/avx2/vector.hpp"

MICROSCALE_AVX2_BEGIN
#include "cpu/generic/dense.hpp"
#include "cpu/generic/block_max.hpp"
#include "cpu/generic/scale_e8m0.hpp"
#include "cpu/generic/pack_fp4.hpp"
#include "cpu/generic/round_element.hpp"
#include "cpu/generic/quantize_mx.hpp"

cpu::QuantizeKernel quantize_mxfp8(const QuantizeLines& call) {
  return call.format == Format::mxfp8_e4m3 ? quantize_mx<Fp8E4M3>(call)
                                           : quantize_mx<Fp8E5M2>(call);
}
MICROSCALE_AVX2_END
