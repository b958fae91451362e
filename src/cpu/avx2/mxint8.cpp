// Dense to MXINT8, and back, with AVX2.
#include "cpu/avx2/kernels.hpp"
#include "cpu/avx2/vector.hpp"

MICROSCALE_AVX2_BEGIN
#include "cpu/generic/dense.hpp"
#include "cpu/generic/block_max.hpp"
#include "cpu/generic/scale_e8m0.hpp"
#include "cpu/generic/pack_fp4.hpp"
#include "cpu/generic/round_element.hpp"
#include "cpu/generic/quantize_mx.hpp"
#include "cpu/generic/mxint8.hpp"

cpu::QuantizeKernel quantize_mxint8(const QuantizeLines& call) { return mxint8_encoder(call); }

cpu::DequantizeKernel dequantize_mxint8(const DequantizeLines& call) {
  return mxint8_decoder(call.output_type);
}
MICROSCALE_AVX2_END
