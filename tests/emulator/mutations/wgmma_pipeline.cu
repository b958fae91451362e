// D = A B^T of 128 x 64 f16 and K in tiles of 64: a warp brings tiles by tensor maps into two
// stages, two warpgroups multiply 64 rows each and give a stage back when its products are done.
// 288 threads.
struct alignas(64) TensorMap {
  unsigned long long words[16];
};

namespace wgmma_pipeline {

constexpr unsigned a_bytes = 128 * 128, b_bytes = 64 * 128, stage_bytes = a_bytes + b_bytes;

__device__ unsigned long long descriptor(unsigned address) {
  return (address >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 62;
}

#define FOUR(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
__device__ void multiply(float (&d)[32], unsigned long long a, unsigned long long b,
                         bool accumulate) {
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, "
      "%10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, "
      "%28, "
      "%29, %30, %31}, %32, %33, p, 1, 1, 0, 0; }"
      : FOUR(0), FOUR(4), FOUR(8), FOUR(12), FOUR(16), FOUR(20), FOUR(24), FOUR(28)
      : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));
}

__device__ void arrive(unsigned barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

__device__ void load(unsigned to, const TensorMap* map, unsigned tile, unsigned barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, "
      "{%2, %3}], [%4];" ::"r"(to),
      "l"(map), "r"(tile * 64), "r"(0), "r"(barrier)
      : "memory");
}

}  // namespace wgmma_pipeline

// `what` is a literal of the PTX: where the wait stands.
#define WAIT(barrier, parity, what)                                                 \
  asm volatile(                                                                     \
      "{ .reg .pred done;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 done, " \
      "[%0], %1;  // " what "\n@!done bra again; }" ::"r"(barrier),                 \
      "r"(parity)                                                                   \
      : "memory")

extern "C" __global__ void __launch_bounds__(288)
    multiply_pipelined(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b,
                       float* out, unsigned tiles) {
  using namespace wgmma_pipeline;
  extern __shared__ __align__(1024) unsigned char stages[];
  __shared__ __align__(8) unsigned long long barriers[4];
  const unsigned first = static_cast<unsigned>(__cvta_generic_to_shared(stages)),
                 full = static_cast<unsigned>(__cvta_generic_to_shared(barriers)),
                 empty = full + 16;
  if (threadIdx.x == 0) {
    for (unsigned i = 0; i < 2; ++i) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(full + 8 * i) : "memory");
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 2;" ::"r"(empty + 8 * i) : "memory");
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  if (threadIdx.x >= 256) {  // the producer
    if (threadIdx.x != 256) return;
#pragma unroll 1
    for (unsigned tile = 0; tile < tiles; ++tile) {
      const unsigned which = tile & 1, stage = first + which * stage_bytes,
                     barrier = full + 8 * which;
      WAIT(empty + 8 * which, (tile / 2 & 1) ^ 1, "the stage is free");
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 24576;" ::"r"(barrier)
                   : "memory");
      load(stage, &a, tile, barrier);
      load(stage + a_bytes, &b, tile, barrier);
    }
    return;
  }
  const unsigned group = threadIdx.x / 128, thread = threadIdx.x % 128;
  float d[32];
#pragma unroll 1
  for (unsigned tile = 0; tile < tiles; ++tile) {
    const unsigned which = tile & 1, stage = first + which * stage_bytes;
    WAIT(full + 8 * which, tile / 2 & 1, "the tile is here");
    asm volatile("wgmma.fence.sync.aligned;  // before the products" ::: "memory");
#pragma unroll
    for (unsigned k = 0; k < 4; ++k)
      multiply(d, descriptor(stage + group * 8192) + 2 * k, descriptor(stage + a_bytes) + 2 * k,
               tile > 0 || k > 0);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 1;  // the tile before" ::: "memory");
    if (thread == 0 && tile > 0) arrive(empty + 8 * (which ^ 1));
  }
  asm volatile("wgmma.wait_group.sync.aligned 0;  // all tiles" ::: "memory");
  const unsigned row = group * 64 + thread / 32 * 16 + thread % 32 / 4, column = thread % 4 * 2;
#pragma unroll
  for (unsigned i = 0; i < 32; ++i)
    out[(row + i / 2 % 2 * 8) * 64 + i / 4 * 8 + column + i % 2] = d[i];
}
