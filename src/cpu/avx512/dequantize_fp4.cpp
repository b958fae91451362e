// MXFP4 and NVFP4 to dense with AVX-512.
#include "cpu/avx512/kernels.hpp"
#include "cpu/avx512/vector.hpp"

MICROSCALE_AVX512_BEGIN
#include "cpu/generic/dense.hpp"
#include "cpu/avx512/lookup.hpp"
#include "cpu/generic/dequantize_fp4.hpp"

cpu::DequantizeKernel dequantize_fp4(const DequantizeLines& call) {
  return call.format == Format::nvfp4 ? fp4_decoder<16>(call.output_type)
                                      : fp4_decoder<32>(call.output_type);
}
MICROSCALE_AVX512_END
