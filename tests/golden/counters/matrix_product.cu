// A matrix product whose traffic the profiler and the emulator are compared on: a block makes 64 x
// 64 of D = A B^T (FP16 in, FP32 out) with four warps; tiles of 64 x 32 go through shared memory,
// rows 80 bytes apart, and ldmatrix. matrix_product.ptx is what nvcc makes of it.
#include <cuda_fp16.h>

#include <cstdint>

struct Args {
  const __half* a;
  std::int64_t rows, cols;  // of A and of B; K is cols
  float* d;
  const __half* b;
  float unused;
};

__device__ void ldmatrix_x4(std::uint32_t (&r)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

__device__ void mma(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                    std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

extern "C" __global__ void matrix_product(Args args) {
  constexpr int pitch = 40;  // halves
  __shared__ __half tile[2][64 * pitch];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const std::int64_t row = blockIdx.y * 64, column = blockIdx.x * 64;
  float d[8][4] = {};
  for (std::int64_t k = 0; k < args.cols; k += 32) {
    for (int i = 0; i < 2; ++i) {  // 64 rows of four pieces of 16 bytes
      const int piece = threadIdx.x + i * 128, r = piece / 4, c = piece % 4 * 8;
      *reinterpret_cast<uint4*>(&tile[0][r * pitch + c]) =
          *reinterpret_cast<const uint4*>(args.a + (row + r) * args.cols + k + c);
      *reinterpret_cast<uint4*>(&tile[1][r * pitch + c]) =
          *reinterpret_cast<const uint4*>(args.b + (column + r) * args.cols + k + c);
    }
    __syncthreads();
    for (int step = 0; step < 32; step += 16) {
      std::uint32_t a[4];
      const int place = (lane % 16) * pitch + step + lane / 16 * 8;
      ldmatrix_x4(a, __cvta_generic_to_shared(&tile[0][warp * 16 * pitch + place]));
      for (int pair = 0; pair < 4; ++pair) {
        std::uint32_t b[4];
        ldmatrix_x4(b, __cvta_generic_to_shared(&tile[1][pair * 16 * pitch + place]));
        mma(d[2 * pair], a, b[0], b[2]);
        mma(d[2 * pair + 1], a, b[1], b[3]);
      }
    }
    __syncthreads();
  }
  for (int n = 0; n < 8; ++n)
    for (int half = 0; half < 2; ++half) {
      const std::int64_t line = row + warp * 16 + half * 8 + lane / 4;
      float* target = args.d + line * args.rows + column + n * 8 + lane % 4 * 2;
      *reinterpret_cast<float2*>(target) = make_float2(d[n][2 * half], d[n][2 * half + 1]);
    }
}
