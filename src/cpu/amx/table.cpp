// The AMX backend: all that AVX-512 has, and matrix products and attention on tiles.
#include "cpu/amx/kernels.hpp"
#include "cpu/amx/permission.hpp"
#include "cpu/avx512/kernels.hpp"
#include "seam/kernel_table.hpp"

namespace microscale {
namespace {

bool available() {
  __builtin_cpu_init();
  return avx512_kernels.available() && __builtin_cpu_supports("avx512bf16") && amx::permitted();
}

}  // namespace

const KernelTable amx_kernels{
    .backend = Backend::amx,
    .available = available,
    .supports_quantize =
        [](const QuantizeLines& call) { return avx512_kernels.supports_quantize(call); },
    .quantize = [](const QuantizeLines& call) { avx512_kernels.quantize(call); },
    .supports_dequantize =
        [](const DequantizeLines& call) { return avx512_kernels.supports_dequantize(call); },
    .dequantize = [](const DequantizeLines& call) { avx512_kernels.dequantize(call); },
    .abs_max = [](const void* input, DType type,
                  std::int64_t count) { return avx512_kernels.abs_max(input, type, count); },
    .rows = &avx512_rows,
    .matmul = &amx_matmul,
    .attention = &amx_attention,
};

}  // namespace microscale
