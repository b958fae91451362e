// Dense to MXFP6 (E2M3 and E3M2), and back, with AVX-512.
#include "cpu/avx512/kernels.hpp"
#include "cpu/avx512/vector.hpp"

MICROSCALE_AVX512_BEGIN
#include "cpu/generic/dense.hpp"
#include "cpu/generic/block_max.hpp"
#include "cpu/generic/scale_e8m0.hpp"
#include "cpu/generic/pack_fp4.hpp"
#include "cpu/generic/round_element.hpp"
#include "cpu/generic/quantize_mx.hpp"
#include "cpu/generic/dequantize_mxfp6.hpp"

cpu::QuantizeKernel quantize_mxfp6(const QuantizeLines& call) {
  return call.format == Format::mxfp6_e2m3 ? quantize_mx<Fp6E2M3>(call)
                                           : quantize_mx<Fp6E3M2>(call);
}

cpu::DequantizeKernel dequantize_mxfp6(const DequantizeLines& call) {
  return call.format == Format::mxfp6_e2m3 ? mxfp6_decoder<E2M3Code>(call.output_type)
                                           : mxfp6_decoder<E3M2Code>(call.output_type);
}
MICROSCALE_AVX512_END
