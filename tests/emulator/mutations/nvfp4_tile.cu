// One warp: D (32 x 8) = A (32 x 128) times B (8 x 128) of NVFP4, two codes a byte, a UE4M3 scale
// for every 16, by four mma.m16n8k64. cp.async brings all to shared memory, ldmatrix the fragments
// to registers.
namespace {

__device__ unsigned shared_address(const void* at) {
  return static_cast<unsigned>(__cvta_generic_to_shared(at));
}

__device__ void copy_async(void* to, const void* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from)
               : "memory");
}

struct Tile {
  unsigned char a[32][64], b[8][64], scale_a[32][8], scale_b[8][8];
};

}  // namespace

extern "C" __global__ void __launch_bounds__(32) nvfp4_tile(const unsigned char* in, float* d) {
  __shared__ __align__(16) Tile tile;
  const unsigned lane = threadIdx.x;
  unsigned char* to = reinterpret_cast<unsigned char*>(&tile);
#pragma unroll 1
  for (unsigned i = 16 * lane; i < sizeof(Tile); i += 16 * 32) copy_async(to + i, in + i);
  asm volatile("cp.async.wait_all;" ::: "memory");
  asm volatile("bar.warp.sync 0xffffffff;  // the tile" ::: "memory");
#pragma unroll 1
  for (unsigned rows = 0; rows < 2; ++rows) {
    float d0 = 0, d1 = 0, d2 = 0, d3 = 0;
    unsigned short select;
    asm("cvt.u16.u32 %0, %1;  // the scales of these 16 rows" : "=h"(select) : "r"(rows));
#pragma unroll 1
    for (unsigned k = 0; k < 2; ++k) {
      unsigned a0, a1, a2, a3, b0, b1, half;
      asm("shr.u32 %0, %1, 4;  // which 16 bytes of a row" : "=r"(half) : "r"(lane));
      const unsigned from_a = shared_address(&tile.a[16 * rows + lane % 16][32 * k + 16 * half]);
      const unsigned from_b = shared_address(&tile.b[lane % 8][32 * k + 16 * (lane / 8 % 2)]);
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(a0), "=r"(a1), "=r"(a2), "=r"(a3)
                   : "r"(from_a)
                   : "memory");
      asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                   : "=r"(b0), "=r"(b1)
                   : "r"(from_b)
                   : "memory");
      // Lanes 0 and 1 of four hold the scales of the first 16 rows, 2 and 3 those of the others.
      const unsigned scale_row = lane / 4 + 8 * (lane % 4);
      const unsigned scale_a = *reinterpret_cast<const unsigned*>(&tile.scale_a[scale_row][4 * k]);
      const unsigned scale_b = *reinterpret_cast<const unsigned*>(&tile.scale_b[lane / 4][4 * k]);
      asm volatile(
          "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale"
          ".scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3\n"
          "{%0, %1, %2, %3},\n{%4, %5, %6, %7},\n{%8, %9},\n{%0, %1, %2, %3},\n%10, {0, "
          "%12},\n%11, {0, 0};"
          : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3)
          : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1), "r"(scale_a), "r"(scale_b),
            "h"(select));
    }
    float* out = d + (16 * rows + lane / 4) * 8 + lane % 4 * 2;
    out[0] = d0, out[1] = d1, out[64] = d2, out[65] = d3;
  }
}
