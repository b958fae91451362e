// The AVX-512 backend.
#include "cpu/avx512/kernels.hpp"
#include "cpu/coverage.hpp"

namespace microscale {
namespace {

bool available() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
}

cpu::QuantizeKernel kernel_of(const QuantizeLines& call) {
  switch (call.format) {
    case Format::mxfp4:
      return avx512::quantize_mxfp4(call);
    case Format::nvfp4:
      return avx512::quantize_nvfp4(call);
    case Format::mxfp6_e2m3:
    case Format::mxfp6_e3m2:
      return avx512::quantize_mxfp6(call);
    case Format::mxint8:
      return avx512::quantize_mxint8(call);
    default:
      return avx512::quantize_mxfp8(call);
  }
}

cpu::DequantizeKernel kernel_of(const DequantizeLines& call) {
  switch (call.format) {
    case Format::mxfp4:
    case Format::nvfp4:
      return avx512::dequantize_fp4(call);
    case Format::mxfp6_e2m3:
    case Format::mxfp6_e3m2:
      return avx512::dequantize_mxfp6(call);
    case Format::mxint8:
      return avx512::dequantize_mxint8(call);
    default:
      return avx512::dequantize_mxfp8(call);
  }
}

void quantize(const QuantizeLines& call) {
  cpu::quantize_runs(call, avx512::group, kernel_of(call), avx512::round_stochastically(call));
}

void dequantize(const DequantizeLines& call) {
  cpu::dequantize_runs(call, avx512::group, kernel_of(call));
}

}  // namespace

const KernelTable avx512_kernels{
    .backend = Backend::avx512,
    .available = available,
    .supports_quantize = [](const QuantizeLines& call) { return cpu::covers(call); },
    .quantize = quantize,
    .supports_dequantize = [](const DequantizeLines& call) { return cpu::covers(call); },
    .dequantize = dequantize,
    .abs_max = avx512::abs_max,
    .rows = &avx512_rows,
    .matmul = &avx512_matmul,
    .attention = &avx512_attention,
};

}  // namespace microscale
