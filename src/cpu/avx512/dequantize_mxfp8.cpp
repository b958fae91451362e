// MXFP8 (E4M3 and E5M2) to dense with AVX-512.
#include "cpu/avx512/kernels.hpp"
#include "cpu/avx512/vector.hpp"

MICROSCALE_AVX512_BEGIN
#include "cpu/generic/dense.hpp"
#include "cpu/generic/dequantize_mxfp8.hpp"

cpu::DequantizeKernel dequantize_mxfp8(const DequantizeLines& call) {
  return call.format == Format::mxfp8_e4m3 ? mxfp8_decoder<E4M3Code>(call.output_type)
                                           : mxfp8_decoder<E5M2Code>(call.output_type);
}
MICROSCALE_AVX512_END
