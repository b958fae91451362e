// D = A B^T of 64 x 64 f16 and K in tiles of 64, by wgmma: threads store a tile into one of two
// stages of swizzled rows of 128 bytes while the product of the tile before is under way. 128
// threads.
namespace wgmma_ring {

__device__ unsigned long long descriptor(unsigned address) {
  return (address >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 62;
}

#define FOUR(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
__device__ void multiply(float (&d)[32], unsigned long long a, unsigned long long b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, "
      "%10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, "
      "%28, "
      "%29, %30, %31}, %32, %33, 1, 1, 1, 0, 0;"
      : FOUR(0), FOUR(4), FOUR(8), FOUR(12), FOUR(16), FOUR(20), FOUR(24), FOUR(28)
      : "l"(a), "l"(b));
}

}  // namespace wgmma_ring

extern "C" __global__ void __launch_bounds__(128)
    multiply_tiles(const uint4* a, const uint4* b, float* out, unsigned tiles) {
  using namespace wgmma_ring;
  __shared__ __align__(1024) uint4 stages[2][2][64 * 8];
  const unsigned thread = threadIdx.x;
  const unsigned first = static_cast<unsigned>(__cvta_generic_to_shared(stages));
  float d[32] = {};
#pragma unroll 1
  for (unsigned tile = 0; tile < tiles; ++tile) {
    const unsigned stage = first + (tile & 1) * 16384;
#pragma unroll 1
    for (unsigned chunk = thread; chunk < 512; chunk += 128) {
      const unsigned row = chunk / 8, place = row * 128 + ((chunk ^ row) & 7) * 16;
      const uint4 left = a[(row * tiles + tile) * 8 + chunk % 8],
                  right = b[(row * tiles + tile) * 8 + chunk % 8];
      asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(stage + place), "r"(left.x),
                   "r"(left.y), "r"(left.z), "r"(left.w)
                   : "memory");
      asm volatile("st.shared.v4.u32 [%0+8192], {%1, %2, %3, %4};" ::"r"(stage + place),
                   "r"(right.x), "r"(right.y), "r"(right.z), "r"(right.w)
                   : "memory");
    }
    asm volatile("fence.proxy.async.shared::cta;  // the tile" ::: "memory");
    asm volatile("bar.sync 0;  // the tile is whole" ::: "memory");
    asm volatile("wgmma.fence.sync.aligned;  // before the products" ::: "memory");
#pragma unroll
    for (unsigned k = 0; k < 4; ++k)
      multiply(d, descriptor(stage) + 2 * k, descriptor(stage + 8192) + 2 * k);
    asm volatile("wgmma.commit_group.sync.aligned;  // the tile" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 1;  // the tile before" ::: "memory");
  }
  asm volatile("wgmma.wait_group.sync.aligned 0;  // all tiles" ::: "memory");
  const unsigned row = thread / 32 * 16 + thread % 32 / 4, column = thread % 4 * 2;
#pragma unroll
  for (unsigned i = 0; i < 32; ++i)
    out[(row + i / 2 % 2 * 8) * 64 + i / 4 * 8 + column + i % 2] = d[i];
}
