// One warp: A (16 x 128) and B (8 x 128) of FP32 to MXFP4, a code in bits 5-2 of each byte, and
// their product D (16 x 8) by four mma.m16n8k32; E8M0 scales that keep the largest magnitude of 32
// at or below 4.
namespace {

__device__ unsigned shared_word(const void* at) { return *static_cast<const unsigned*>(at); }

/// The byte of `x`, nearest, ties to the even code.
extern "C" __device__ __noinline__ unsigned encode(float x) {
  const float a = fabsf(x);
  unsigned code = 0;
  asm("{ .reg .pred p;\n"
      "setp.gt.f32 p, %1, 0f3E800000;  // 0.25 goes down to 0\n@p mov.u32 %0, 1;\n"
      "setp.ge.f32 p, %1, 0f3F400000;  // 0.75 goes up to 1\n@p mov.u32 %0, 2;\n"
      "setp.gt.f32 p, %1, 0f3FA00000;  // 1.25 goes down to 1\n@p mov.u32 %0, 3;\n"
      "setp.ge.f32 p, %1, 0f3FE00000;  // 1.75 goes up to 2\n@p mov.u32 %0, 4;\n"
      "setp.gt.f32 p, %1, 0f40200000;  // 2.5 goes down to 2\n@p mov.u32 %0, 5;\n"
      "setp.ge.f32 p, %1, 0f40600000;  // 3.5 goes up to 4\n@p mov.u32 %0, 6;\n"
      "setp.gt.f32 p, %1, 0f40A00000;  // 5 goes down to 4\n@p mov.u32 %0, 7; }"
      : "+r"(code)
      : "f"(a));
  code |= __float_as_uint(x) >> 31 << 3;
  asm("shl.b32 %0, %0, 2;  // to bits 5-2" : "+r"(code));
  return code;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(32) mx_tile(const float* a, const float* b, float* d) {
  __shared__ __align__(16) unsigned char codes[24][128];
  __shared__ __align__(16) unsigned char scales[24][4];
  const unsigned lane = threadIdx.x;
#pragma unroll 1
  for (unsigned block = lane; block < 24 * 4; block += 32) {
    const unsigned row = block / 4;
    const float* from = (row < 16 ? a + 128 * row : b + 128 * (row - 16)) + block % 4 * 32;
    float largest = 0;
#pragma unroll 1
    for (unsigned i = 0; i < 32; ++i) largest = fmaxf(largest, fabsf(from[i]));
    const unsigned exponent = __float_as_uint(largest) >> 23;
    unsigned scale;
    asm("sub.u32 %0, %1, 1;  // the largest is 2 to 4 of it" : "=r"(scale) : "r"(exponent));
    scales[row][block % 4] = static_cast<unsigned char>(scale);
    const float inverse = __uint_as_float((254 - scale) << 23);
#pragma unroll 1
    for (unsigned i = 0; i < 32; ++i)
      codes[row][block % 4 * 32 + i] = static_cast<unsigned char>(encode(from[i] * inverse));
  }
  asm volatile("bar.warp.sync 0xffffffff;  // codes and scales" ::: "memory");

  unsigned row, column, part;
  asm("shr.u32 %0, %1, 2;  // row of the fragment of A" : "=r"(row) : "r"(lane));
  asm("shr.u32 %0, %1, 2;  // column of the fragment of B" : "=r"(column) : "r"(lane));
  asm("and.b32 %0, %1, 3;  // word of the fragment" : "=r"(part) : "r"(lane));
  unsigned scale_row;
  asm("mad.lo.u32 %0, %1, 8, %2;  // row of the scale of A"
      : "=r"(scale_row)
      : "r"(part & 1), "r"(lane / 4));
  const unsigned scale_a = shared_word(scales[scale_row]);
  const unsigned scale_b = shared_word(scales[16 + lane / 4]);
  float d0 = 0, d1 = 0, d2 = 0, d3 = 0;
#pragma unroll 1
  for (unsigned k = 0; k < 4; ++k) {
    const unsigned at = 32 * k + 4 * part;
    const unsigned a0 = shared_word(&codes[row][at]), a1 = shared_word(&codes[row + 8][at]);
    const unsigned a2 = shared_word(&codes[row][at + 16]),
                   a3 = shared_word(&codes[row + 8][at + 16]);
    const unsigned b0 = shared_word(&codes[16 + column][at]);
    const unsigned b1 = shared_word(&codes[16 + column][at + 16]);
    unsigned short select;
    asm("cvt.u16.u32 %0, %1;  // the scale of this part of K" : "=h"(select) : "r"(k));
    asm volatile(
        "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale"
        ".scale_vec::1X.f32.e2m1.e2m1.f32.ue8m0\n"
        "{%0, %1, %2, %3},\n{%4, %5, %6, %7},\n{%8, %9},\n{%0, %1, %2, %3},\n%10, {%12, 0},\n%11, "
        "{%12, 0};"
        : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3)
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1), "r"(scale_a), "r"(scale_b),
          "h"(select));
  }
  float* to = d + lane / 4 * 8 + lane % 4 * 2;
  to[0] = d0, to[1] = d1, to[64] = d2, to[65] = d3;
}
