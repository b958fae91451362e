// The AVX2 backend.
#include "cpu/avx2/kernels.hpp"
#include "cpu/coverage.hpp"

namespace microscale {
namespace {

bool available() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("f16c") && __builtin_cpu_supports("bmi2");
}

cpu::QuantizeKernel kernel_of(const QuantizeLines& call) {
  switch (call.format) {
    case Format::mxfp4:
      return avx2::quantize_mxfp4(call);
    case Format::nvfp4:
      return avx2::quantize_nvfp4(call);
    case Format::mxfp6_e2m3:
    case Format::mxfp6_e3m2:
      return avx2::quantize_mxfp6(call);
    case Format::mxint8:
      return avx2::quantize_mxint8(call);
    default:
      return avx2::quantize_mxfp8(call);
  }
}

cpu::DequantizeKernel kernel_of(const DequantizeLines& call) {
  switch (call.format) {
    case Format::mxfp4:
    case Format::nvfp4:
      return avx2::dequantize_fp4(call);
    case Format::mxfp6_e2m3:
    case Format::mxfp6_e3m2:
      return avx2::dequantize_mxfp6(call);
    case Format::mxint8:
      return avx2::dequantize_mxint8(call);
    default:
      return avx2::dequantize_mxfp8(call);
  }
}

void quantize(const QuantizeLines& call) {
  cpu::quantize_runs(call, avx2::group, kernel_of(call), avx2::round_stochastically(call));
}

void dequantize(const DequantizeLines& call) {
  cpu::dequantize_runs(call, avx2::group, kernel_of(call));
}

}  // namespace

const KernelTable avx2_kernels{
    .backend = Backend::avx2,
    .available = available,
    .supports_quantize = [](const QuantizeLines& call) { return cpu::covers(call); },
    .quantize = quantize,
    .supports_dequantize = [](const DequantizeLines& call) { return cpu::covers(call); },
    .dequantize = dequantize,
    .abs_max = avx2::abs_max,
    .rows = &avx2_rows,
    .matmul = &avx2_matmul,
    .attention = &avx2_attention,
};

}  // namespace microscale
