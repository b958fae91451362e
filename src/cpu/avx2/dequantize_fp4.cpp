// MXFP4 and NVFP4 to dense with AVX2.
#include "cpu/avx2/kernels.hpp"
#include "cpu/avx2/vector.hpp"

MICROSCALE_AVX2_BEGIN
#include "cpu/generic/dense.hpp"
#include "cpu/avx2/lookup.hpp"
#include "cpu/generic/dequantize_fp4.hpp"

cpu::DequantizeKernel dequantize_fp4(const DequantizeLines& call) {
  return call.format == Format::nvfp4 ? fp4_decoder<16>(call.output_type)
                                      : fp4_decoder<32>(call.output_type);
}
MICROSCALE_AVX2_END
