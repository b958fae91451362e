// The AVX2 kernels by what they do; table.cpp chooses among them.
#pragma once

#include "seam/row_kernels.hpp"
#include "cpu/runs.hpp"

namespace microscale::avx2 {

// Blocks of one call of a kernel are a multiple of this.
inline constexpr int group = 8;

cpu::QuantizeKernel quantize_mxfp4(const QuantizeLines& call);
cpu::QuantizeKernel quantize_mxfp6(const QuantizeLines& call);
cpu::QuantizeKernel quantize_mxfp8(const QuantizeLines& call);
cpu::QuantizeKernel quantize_mxint8(const QuantizeLines& call);
cpu::QuantizeKernel quantize_nvfp4(const QuantizeLines& call);
cpu::StochasticKernel round_stochastically(const QuantizeLines& call);
cpu::DequantizeKernel dequantize_fp4(const DequantizeLines& call);
cpu::DequantizeKernel dequantize_mxfp6(const DequantizeLines& call);
cpu::DequantizeKernel dequantize_mxfp8(const DequantizeLines& call);
cpu::DequantizeKernel dequantize_mxint8(const DequantizeLines& call);
AbsMaxRun abs_max(const void* input, DType type, std::int64_t count);

}  // namespace microscale::avx2

namespace microscale {
extern const RowKernels avx2_rows;
extern const MatmulKernels avx2_matmul;
extern const AttentionKernels avx2_attention;
}  // namespace microscale
