// D = A B^T of 256 x 128 f16, K in tiles of 64, by two blocks: each brings its half of A and of B,
// the first multiplies both halves into the tensor memory of both, and each takes 128 rows of D
// from its own. 128 threads.
struct alignas(64) TensorMap {
  unsigned long long words[16];
};

namespace tensor_pair {

constexpr unsigned a_bytes = 128 * 128, b_bytes = 64 * 128, stage_bytes = a_bytes + b_bytes;

__device__ unsigned long long matrix(unsigned address) {
  return (address >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 46 | 2ull << 61;
}

__device__ void load(unsigned to, const TensorMap* map, unsigned column, unsigned row,
                     unsigned barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global.tile.mbarrier::complete_tx::"
      "bytes "
      "[%0], [%1, {%2, %3}], [%4];" ::"r"(to),
      "l"(map), "r"(column), "r"(row), "r"(barrier)
      : "memory");
}

}  // namespace tensor_pair

#define WAIT(barrier, parity, what)                                                 \
  asm volatile(                                                                     \
      "{ .reg .pred done;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 done, " \
      "[%0], %1;  // " what "\n@!done bra again; }" ::"r"(barrier),                 \
      "r"(parity)                                                                   \
      : "memory")
#define LANE(text) asm volatile(text ::: "memory")
#define FOUR(i) "=r"(d[i]), "=r"(d[i + 1]), "=r"(d[i + 2]), "=r"(d[i + 3])
#define KEEP(i) "+r"(d[i]), "+r"(d[i + 1]), "+r"(d[i + 2]), "+r"(d[i + 3])

extern "C" __global__ void __launch_bounds__(128) __cluster_dims__(2, 1, 1)
    multiply_pair(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b,
                  float* out, unsigned tiles) {
  using namespace tensor_pair;
  extern __shared__ __align__(1024) unsigned char stages[];
  __shared__ __align__(8) unsigned long long barriers[5];
  __shared__ unsigned base;
  const unsigned first = static_cast<unsigned>(__cvta_generic_to_shared(stages)),
                 full = static_cast<unsigned>(__cvta_generic_to_shared(barriers)),
                 empty = full + 16, ready = full + 32, warp = threadIdx.x / 32, rank = blockIdx.x;
  if (threadIdx.x == 0) {
    for (unsigned i = 0; i < 5; ++i)
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(full + 8 * i) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  if (warp == 1) {
    asm volatile("tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%0], 128;" ::"r"(
                     static_cast<unsigned>(__cvta_generic_to_shared(&base)))
                 : "memory");
    LANE("tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;");
  }
  LANE("tcgen05.fence::before_thread_sync;");
  LANE("barrier.cluster.arrive.aligned;\n\tbarrier.cluster.wait.aligned;  // both have begun");
  LANE("tcgen05.fence::after_thread_sync;");
  const unsigned tensor = base;
  if (threadIdx.x == 0) {  // each brings its halves, and tells the first block
    unsigned leader;
    asm volatile("mapa.shared::cluster.u32 %0, %1, 0;" : "=r"(leader) : "r"(full));
#pragma unroll 1
    for (unsigned tile = 0; tile < tiles; ++tile) {
      const unsigned which = tile & 1, stage = first + which * stage_bytes;
      WAIT(empty + 8 * which, (tile / 2 & 1) ^ 1, "the stage is free");
      if (rank == 0)
        asm volatile(
            "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 49152;" ::"r"(full + 8 * which)
            : "memory");
      load(stage, &a, tile * 64, rank * 128, leader + 8 * which);
      load(stage + a_bytes, &b, tile * 64, rank * 64, leader + 8 * which);
    }
  } else if (threadIdx.x == 32 && rank == 0) {  // the products of both
#pragma unroll 1
    for (unsigned tile = 0; tile < tiles; ++tile) {
      const unsigned which = tile & 1, stage = first + which * stage_bytes;
      WAIT(full + 8 * which, tile / 2 & 1, "the tile is here");
#pragma unroll
      for (unsigned k = 0; k < 4; ++k)
        asm volatile(
            "{ .reg .pred p; setp.ne.b32 p, %4, 0;\n"
            "tcgen05.mma.cta_group::2.kind::f16 [%0], %1, %2, %3, p; }" ::"r"(tensor),
            "l"(matrix(stage) + 2 * k), "l"(matrix(stage + a_bytes) + 2 * k),
            "r"(1u << 4 | 16u << 17 | 16u << 24), "r"(tile + k)
            : "memory");
      asm volatile(
          "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster."
          "b64 "
          "[%0], %1;  // the stage" ::"r"(empty + 8 * which),
          "h"(static_cast<unsigned short>(3))
          : "memory");
    }
    asm volatile(
        "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 "
        "[%0], %1;  // the product" ::"r"(ready),
        "h"(static_cast<unsigned short>(3))
        : "memory");
  }
  __syncwarp();
  WAIT(ready, 0, "the product is ready");
  LANE("tcgen05.fence::after_thread_sync;  // the product is ready");
#pragma unroll 1
  for (unsigned part = 0; part < 4; ++part) {
    unsigned d[32];
    asm volatile(
        "tcgen05.ld.sync.aligned.32x32b.x32.b32 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, "
        "%12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, "
        "%30, %31}, [%32];"
        : FOUR(0), FOUR(4), FOUR(8), FOUR(12), FOUR(16), FOUR(20), FOUR(24), FOUR(28)
        : "r"(tensor + 32 * part + (warp << 21)));
    asm volatile("tcgen05.wait::ld.sync.aligned;"
                 : KEEP(0), KEEP(4), KEEP(8), KEEP(12), KEEP(16), KEEP(20), KEEP(24), KEEP(28));
    float* to = out + (rank * 128 + threadIdx.x) * 128 + part * 32;
#pragma unroll
    for (unsigned i = 0; i < 32; ++i) to[i] = __uint_as_float(d[i]);
  }
  LANE("tcgen05.fence::before_thread_sync;  // all is done");
  LANE("barrier.cluster.arrive.aligned;\n\tbarrier.cluster.wait.aligned;  // all is done");
  if (warp == 1)
    asm volatile("tcgen05.dealloc.cta_group::2.sync.aligned.b32 %0, 128;" ::"r"(tensor));
}
