// D = A B^T of 128 x 64 `jobs` NVFP4 and K in tiles of 256, out of tensor memory: a warp brings
// tiles and their scales into two stages, another copies the scales and multiplies into two
// accumulators in turn, four warps take D from there. 192 threads.
struct alignas(64) TensorMap {
  unsigned long long words[16];
};

namespace nvfp4_tensor {

constexpr unsigned a_bytes = 128 * 128, b_bytes = 64 * 128, scale_bytes = 4 * 512,
                   stage_bytes = a_bytes + b_bytes + 2 * scale_bytes;
// Columns of tensor memory behind the two accumulators.
constexpr unsigned scales_a = 128, scales_b = 144;

__device__ unsigned long long matrix(unsigned address) {  // 128 bytes of K a row, swizzled
  return (address >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 46 | 2ull << 61;
}
__device__ unsigned long long scales(unsigned address) {  // 32 rows of 16 bytes
  return (address >> 4) | 8ull << 16 | 8ull << 32 | 1ull << 46;
}

__device__ void load(unsigned to, const TensorMap* map, unsigned column, unsigned row,
                     unsigned barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, "
      "{%2, %3}], [%4];" ::"r"(to),
      "l"(map), "r"(column), "r"(row), "r"(barrier)
      : "memory");
}
__device__ void load_scales(unsigned to, const unsigned char* from, unsigned barrier) {
  asm volatile(
      "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%0], [%1], 2048, [%2];" ::"r"(
          to),
      "l"(from), "r"(barrier)
      : "memory");
}

}  // namespace nvfp4_tensor

// `what` is a literal of the PTX: where the wait stands.
#define WAIT(barrier, parity, what)                                                 \
  asm volatile(                                                                     \
      "{ .reg .pred done;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 done, " \
      "[%0], %1;  // " what "\n@!done bra again; }" ::"r"(barrier),                 \
      "r"(parity)                                                                   \
      : "memory")
#define LANE(text) asm volatile(text ::: "memory")
#define FOUR(i) "=r"(d[i]), "=r"(d[i + 1]), "=r"(d[i + 2]), "=r"(d[i + 3])
#define KEEP(i) "+r"(d[i]), "+r"(d[i + 1]), "+r"(d[i + 2]), "+r"(d[i + 3])

extern "C" __global__ void __launch_bounds__(192)
    multiply_nvfp4(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b,
                   const unsigned char* sa, const unsigned char* sb, float* out, unsigned tiles,
                   unsigned jobs) {
  using namespace nvfp4_tensor;
  extern __shared__ __align__(1024) unsigned char stages[];
  __shared__ __align__(8) unsigned long long barriers[8];
  __shared__ unsigned base;
  const unsigned first = static_cast<unsigned>(__cvta_generic_to_shared(stages)),
                 full = static_cast<unsigned>(__cvta_generic_to_shared(barriers)),
                 empty = full + 16, ready = full + 32, taken = full + 48, warp = threadIdx.x / 32;
  if (threadIdx.x == 0) {
    for (unsigned i = 0; i < 2; ++i) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(full + 8 * i) : "memory");
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(empty + 8 * i) : "memory");
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(ready + 8 * i) : "memory");
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 4;" ::"r"(taken + 8 * i) : "memory");
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  if (warp == 1) {
    asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 256;" ::"r"(
                     static_cast<unsigned>(__cvta_generic_to_shared(&base)))
                 : "memory");
    LANE("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;");
  }
  LANE("tcgen05.fence::before_thread_sync;  // allocated");
  __syncthreads();
  LANE("tcgen05.fence::after_thread_sync;  // allocated");
  const unsigned tensor = base;
  if (threadIdx.x == 0) {  // the producer
    unsigned turn = 0;
#pragma unroll 1
    for (unsigned job = 0; job < jobs; ++job)
#pragma unroll 1
      for (unsigned tile = 0; tile < tiles; ++tile, ++turn) {
        const unsigned which = turn & 1, stage = first + which * stage_bytes,
                       barrier = full + 8 * which;
        WAIT(empty + 8 * which, (turn / 2 & 1) ^ 1, "the stage is free");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 28672;" ::"r"(barrier)
                     : "memory");
        load(stage, &a, tile * 128, 0, barrier);
        load(stage + a_bytes, &b, tile * 128, job * 64, barrier);
        load_scales(stage + a_bytes + b_bytes, sa + tile * scale_bytes, barrier);
        load_scales(stage + a_bytes + b_bytes + scale_bytes,
                    sb + (job * tiles + tile) * scale_bytes, barrier);
      }
  } else if (threadIdx.x == 32) {  // the products
    unsigned turn = 0;
#pragma unroll 1
    for (unsigned job = 0; job < jobs; ++job) {
      const unsigned accumulator = job & 1, d = tensor + 64 * accumulator;
      WAIT(taken + 8 * accumulator, (job / 2 & 1) ^ 1, "the accumulator is free");
      LANE("tcgen05.fence::after_thread_sync;  // the accumulator is free");
#pragma unroll 1
      for (unsigned tile = 0; tile < tiles; ++tile, ++turn) {
        const unsigned which = turn & 1, stage = first + which * stage_bytes;
        WAIT(full + 8 * which, turn / 2 & 1, "the tile is here");
#pragma unroll
        for (unsigned k = 0; k < 4; ++k) {
          const unsigned from = stage + a_bytes + b_bytes + 512 * k;
          asm volatile("tcgen05.cp.cta_group::1.32x128b.warpx4 [%0], %1;  // scales of A" ::"r"(
                           tensor + scales_a + 4 * k),
                       "l"(scales(from)));
          asm volatile("tcgen05.cp.cta_group::1.32x128b.warpx4 [%0], %1;  // scales of B" ::"r"(
                           tensor + scales_b + 4 * k),
                       "l"(scales(from + scale_bytes)));
        }
#pragma unroll
        for (unsigned k = 0; k < 4; ++k)
          asm volatile(
              "{ .reg .pred p; setp.ne.b32 p, %6, 0;\n"
              "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.block16 [%0], %1, %2, %3, [%4], "
              "[%5], p; }" ::"r"(d),
              "l"(matrix(stage) + 2 * k), "l"(matrix(stage + a_bytes) + 2 * k),
              "r"(1u << 7 | 1u << 10 | 8u << 17 | 1u << 27), "r"(tensor + scales_a + 4 * k),
              "r"(tensor + scales_b + 4 * k), "r"(tile + k)
              : "memory");
        asm volatile(
            "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];  // the "
            "stage" ::"r"(empty + 8 * which)
            : "memory");
      }
      asm volatile(
          "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];  // the "
          "accumulator" ::"r"(ready + 8 * accumulator)
          : "memory");
    }
  } else if (warp >= 2) {
    const unsigned lanes = warp % 4 * 32, row = lanes + threadIdx.x % 32;
#pragma unroll 1
    for (unsigned job = 0; job < jobs; ++job) {
      const unsigned accumulator = job & 1, from = tensor + 64 * accumulator + (lanes << 16);
      WAIT(ready + 8 * accumulator, job / 2 & 1, "the accumulator is ready");
      LANE("tcgen05.fence::after_thread_sync;  // the accumulator is ready");
#pragma unroll
      for (unsigned half = 0; half < 2; ++half) {
        unsigned d[32];
        asm volatile(
            "tcgen05.ld.sync.aligned.32x32b.x32.b32 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, "
            "%11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, "
            "%28, %29, %30, %31}, [%32];"
            : FOUR(0), FOUR(4), FOUR(8), FOUR(12), FOUR(16), FOUR(20), FOUR(24), FOUR(28)
            : "r"(from + 32 * half));
        if (half == 0)
          asm volatile("tcgen05.wait::ld.sync.aligned;  // the first half"
                       : KEEP(0), KEEP(4), KEEP(8), KEEP(12), KEEP(16), KEEP(20), KEEP(24),
                         KEEP(28));
        else
          asm volatile("tcgen05.wait::ld.sync.aligned;  // the second half"
                       : KEEP(0), KEEP(4), KEEP(8), KEEP(12), KEEP(16), KEEP(20), KEEP(24),
                         KEEP(28));
        float* to = out + row * 64 * jobs + job * 64 + half * 32;
#pragma unroll
        for (unsigned i = 0; i < 32; ++i) to[i] = __uint_as_float(d[i]);
      }
      LANE("tcgen05.fence::before_thread_sync;  // the accumulator is taken");
      __syncwarp();
      if (threadIdx.x % 32 == 0)
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(taken + 8 * accumulator)
                     : "memory");
    }
  }
  LANE("tcgen05.fence::before_thread_sync;  // all is done");
  __syncthreads();
  LANE("tcgen05.fence::after_thread_sync;  // all is done");
  if (warp == 1)
    asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 256;" ::"r"(tensor));
}
