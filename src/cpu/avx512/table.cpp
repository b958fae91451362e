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
  if (call.format == Format::mxfp4) return avx512::quantize_mxfp4(call);
  return call.format == Format::nvfp4 ? avx512::quantize_nvfp4(call) : avx512::quantize_mxfp8(call);
}

void quantize(const QuantizeLines& call) {
  cpu::quantize_runs(call, avx512::group, kernel_of(call));
}

void dequantize(const DequantizeLines& call) {
  const bool fp4 = call.format == Format::mxfp4 || call.format == Format::nvfp4;
  cpu::dequantize_runs(call, avx512::group,
                       fp4 ? avx512::dequantize_fp4(call) : avx512::dequantize_mxfp8(call));
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
