// How long one thread waits for a value: each step needs the result of the one before, so the time
// of a long chain divided by its steps is the latency. Nothing overlaps; real kernels overlap a
// lot.
#include "cuda/ptx/special_registers.cuh"
#include "identity.hpp"

namespace levels {
namespace {

using microscale::ptx::mov_clock;

constexpr int shared_words = 4096;

/// v = v * v + c: one fused multiply-add in registers.
__global__ void registers(const std::uint32_t*, int steps, std::uint32_t* out) {
  float v = static_cast<float>(steps);
  const std::uint32_t begin = mov_clock();
#pragma unroll 64
  for (int i = 0; i < steps; ++i) v = __fmaf_rn(v, v, 1.0f);
  out[1] = __float_as_uint(v);
  out[0] = mov_clock() - begin;
}

/// Reads a special register; the branch waits for it before the next is read. (%smid stands for
/// %tid and the others: PTX lets %smid change, so the compiler may not read it once for all.)
__global__ void special_register(const std::uint32_t*, int steps, std::uint32_t* out) {
  std::uint32_t v = 0;
  const std::uint32_t begin = mov_clock();
#pragma unroll 1
  for (int i = 0; i < steps; ++i) {
    const std::uint32_t read = microscale::ptx::mov_smid();
    if (read == 0xFFFFFFFFu) break;
    v += read;
  }
  out[1] = v;
  out[0] = mov_clock() - begin;
}

/// The same loop without the read: what to subtract.
__global__ void loop_alone(const std::uint32_t*, int steps, std::uint32_t* out) {
  std::uint32_t v = 0;
  const std::uint32_t begin = mov_clock();
#pragma unroll 1
  for (int i = 0; i < steps; ++i) {
    const std::uint32_t made = v ^ static_cast<std::uint32_t>(i);
    if (made == static_cast<std::uint32_t>(steps) + 512u)
      break;  // never: v is below 256, i below steps
    v = made & 255u;
  }
  out[1] = v;
  out[0] = mov_clock() - begin;
}

__global__ void shared_memory(const std::uint32_t*, int steps, std::uint32_t* out) {
  __shared__ std::uint32_t ring[shared_words];
  for (unsigned i = 0; i < shared_words; ++i) ring[i] = (i + 33) % shared_words;
  __syncthreads();
  std::uint32_t at = 0;
  const std::uint32_t begin = mov_clock();
#pragma unroll 64
  for (int i = 0; i < steps; ++i) at = ring[at];
  out[1] = at;
  out[0] = mov_clock() - begin;
}

/// Cached: a plain load, which L1 may answer.
__global__ void global_memory(const std::uint32_t* chain, int steps, std::uint32_t* out) {
  std::uint32_t at = 0;
  for (int warm = 0; warm < 2;
       ++warm) {  // the second turn is timed; a ring that fits a cache is in it
    const std::uint32_t begin = mov_clock();
#pragma unroll 16
    for (int i = 0; i < steps; ++i) at = chain[at];
    out[1] = at;
    out[0] = mov_clock() - begin;
  }
}

}  // namespace

std::vector<LatencyKernel> latency_kernels() {
  const auto address = [](auto* kernel) { return reinterpret_cast<const void*>(kernel); };
  return {
      {"register", "fma.rn.f32 on its own result", address(registers), 0},
      {"special register", "mov.u32 from %smid, compare, branch", address(special_register), 0},
      {"nothing", "the same loop without the mov", address(loop_alone), 0},
      {"shared memory", "ld.shared.u32, address made of the last", address(shared_memory), 0},
      {"global memory, in L1", "ld.global.u32, ring of 32 KiB", address(global_memory), 32 << 10},
      {"global memory, in L2", "ld.global.u32, ring of 8 MiB", address(global_memory), 8 << 20},
      {"global memory, in DRAM", "ld.global.u32, ring of 1 GiB", address(global_memory), 1 << 30}};
}

}  // namespace levels
