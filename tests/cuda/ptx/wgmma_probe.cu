// Each product of src/cuda/ptx/wgmma.cuh twice on one accumulator: K 0 to 31 bytes of swizzled
// rows of 128 bytes, not accumulating, then the next 32 bytes. 128 threads.
#include <cstdint>

#include "cuda/ptx/async_copy.cuh"
#include "cuda/ptx/control.cuh"
#include "cuda/ptx/wgmma.cuh"

namespace wgmma_probe {

using namespace microscale::ptx;

/// `image`: 64 rows of A, then those of B; `fragments`: four registers of each thread, twice;
/// `out`: the accumulators of each thread.
template <int Count, bool Registers, class Multiply>
__device__ void probe(const uint4* image, const std::uint32_t* fragments, float* out,
                      Multiply multiply) {
  constexpr int rows = 64 + 2 * Count;
  __shared__ alignas(1024) uint4 tile[8 * rows];
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < 8 * rows; i += 128) tile[i] = image[i];
  fence_proxy_async_shared();
  __syncthreads();
  const auto start = static_cast<std::uint32_t>(__cvta_generic_to_shared(tile));
  const std::uint64_t a = matrix_descriptor_rows128(start),
                      b = matrix_descriptor_rows128(start + 64 * 128);
  float d[Count];
  if constexpr (Registers) {
    std::uint32_t parts[2][4];
    for (int i = 0; i < 8; ++i) parts[i / 4][i % 4] = fragments[8 * threadIdx.x + i];
    wgmma_fence();
    multiply(d, parts[0], b, false);
    multiply(d, parts[1], advance(b, 32), true);
  } else {
    wgmma_fence();
    multiply(d, a, b, false);
    multiply(d, advance(a, 32), advance(b, 32), true);
  }
  wgmma_commit_group();
  wgmma_wait_group<0>();
  keep_in_place(d);
  auto* to = reinterpret_cast<float4*>(out + threadIdx.x * Count);
#pragma unroll
  for (int i = 0; i < Count; i += 4) to[i / 4] = make_float4(d[i], d[i + 1], d[i + 2], d[i + 3]);
}

}  // namespace wgmma_probe

#define PROBE(shape, count)                                                            \
  extern "C" __global__ void __launch_bounds__(128)                                    \
      shape##_shared(const uint4* image, const std::uint32_t* fragments, float* out) { \
    wgmma_probe::probe<count, false>(image, fragments, out, [](auto&&... operands) {   \
      microscale::ptx::wgmma_##shape(operands...);                                     \
    });                                                                                \
  }                                                                                    \
  PROBE_REGISTERS(shape, count)
#define PROBE_REGISTERS(shape, count)                                                     \
  extern "C" __global__ void __launch_bounds__(128)                                       \
      shape##_registers(const uint4* image, const std::uint32_t* fragments, float* out) { \
    wgmma_probe::probe<count, true>(image, fragments, out, [](auto&&... operands) {       \
      microscale::ptx::wgmma_##shape(operands...);                                        \
    });                                                                                   \
  }

PROBE(m64n128k16_f32_f16_f16, 64)
PROBE(m64n256k16_f32_f16_f16, 128)
PROBE(m64n128k16_f32_bf16_bf16, 64)
PROBE(m64n256k16_f32_bf16_bf16, 128)
PROBE(m64n128k32_f32_e4m3_e4m3, 64)
PROBE(m64n256k32_f32_e4m3_e4m3, 128)
PROBE_REGISTERS(m64n64k16_f32_f16_f16, 32)
PROBE_REGISTERS(m64n64k16_f32_bf16_bf16, 32)
PROBE_REGISTERS(m64n192k32_f32_e5m2_e5m2, 96)
