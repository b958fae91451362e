// MXFP8 (E4M3 and E5M2) to dense with AVX2.
#include "cpu/avx2/kernels.hpp"
#include "cpu/avx2/vector.hpp"

MICROSCALE_AVX2_BEGIN
#include "cpu/generic/dense.hpp"
#include "cpu/generic/dequantize_mxfp8.hpp"

cpu::DequantizeKernel dequantize_mxfp8(const DequantizeLines& call) {
  return call.format == Format::mxfp8_e4m3 ? mxfp8_decoder<E4M3Code>(call.output_type)
                                           : mxfp8_decoder<E5M2Code>(call.output_type);
}
MICROSCALE_AVX2_END
