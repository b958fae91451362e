// Matrix instructions of a warp (PTX ISA, "Warp-level matrix instructions"): products, and matrices
// on their way to and from the registers that products read.
//
// Products ("mma"): d = A B + d. sm_80 and later; block-scaled sm_120f.
//
// Of lane 4 g + t: A (16 x 16), register v: row g + 8 (v % 2), columns 2 t + 8 (v / 2) in the low
// and the next in the high half; B (16 x 8), register v: rows 2 t + 8 v and the next, column g; D
// (16 x 8), register i: row g + 8 (i / 2), column 2 t + i % 2.
#pragma once

#include <cstdint>

namespace microscale::ptx {

__device__ inline void mma_m16n8k16_f32_f16(float (&d)[4], const std::uint32_t (&a)[4],
                                            std::uint32_t b0, std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ inline void mma_m16n8k16_f32_bf16(float (&d)[4], const std::uint32_t (&a)[4],
                                             std::uint32_t b0, std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// A (16 x 32), register v: row g + 8 (v % 2), columns 4 t + 16 (v / 2) and the next three in its
/// bytes from the lowest on; B (32 x 8), register v: rows 4 t + 16 v and the next three, column g.
__device__ inline void mma_m16n8k32_s32_s8(std::uint32_t (&d)[4], const std::uint32_t (&a)[4],
                                           std::uint32_t b0, std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Products of block-scaled operands ("mma" with .block_scale; sm_120f): d += (a * scale_a) (b *
// scale_b)^T, a 16 rows, b 8 columns. Lane 4 g + t holds
//   of a, register r: row g + 8 (r % 2), 4 bytes at 4 t + 16 (r / 2) of the row's 32 bytes;
//   of b, register r: column g, 4 bytes at 4 t + 16 r of its 32;
//   of d, register r: row g + 8 (r / 2), column 2 t + r % 2.
// So 32 bytes are 64 elements of 4 bits, the even one in the low half of a byte, or 32 of 8 bits;
// a 4-bit element in 8 bits stands in bits 5-2, the others zero.
//
// Scales of a: lane 4 g supplies row g, lane 4 g + 1 row g + 8. Of b: lane 4 g + Lane column g.
// Byte: the first of the scales, one for each part of K, that are used of the 32-bit register.

// What all of them share: the mnemonic's tail, and the number of scales along K.
#define MICROSCALE_MMA_BLOCK_SCALED(text)                                                         \
  asm(text                                                                                        \
      " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3}, %10, {%12, 0}, %11, "     \
      "{%12, %13};"                                                                               \
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                            \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(scale_a), "r"(scale_b), \
        "n"(Byte), "n"(Lane))

/// NVFP4: K is 64, four ue4m3 scales of 16 elements; Byte is 0.
template <int Byte, int Lane>
__device__ inline void mma_m16n8k64_mxf4nvf4_4x_ue4m3(float (&d)[4], const std::uint32_t (&a)[4],
                                                      std::uint32_t b0, std::uint32_t b1,
                                                      std::uint32_t scale_a,
                                                      std::uint32_t scale_b) {
  static_assert(Byte == 0 && Lane < 4, "all four bytes are used");
  MICROSCALE_MMA_BLOCK_SCALED(
      "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X"
      ".f32.e2m1.e2m1.f32.ue4m3");
}

/// MXFP4: K is 64, two ue8m0 scales of 32 elements; Byte is 0 or 2.
template <int Byte, int Lane>
__device__ inline void mma_m16n8k64_mxf4nvf4_2x_ue8m0(float (&d)[4], const std::uint32_t (&a)[4],
                                                      std::uint32_t b0, std::uint32_t b1,
                                                      std::uint32_t scale_a,
                                                      std::uint32_t scale_b) {
  static_assert((Byte == 0 || Byte == 2) && Lane < 4, "two neighbouring bytes are used");
  MICROSCALE_MMA_BLOCK_SCALED(
      "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::2X"
      ".f32.e2m1.e2m1.f32.ue8m0");
}

/// The same by its older name, kind::mxf4, which has these scales only.
template <int Byte, int Lane>
__device__ inline void mma_m16n8k64_mxf4_2x_ue8m0(float (&d)[4], const std::uint32_t (&a)[4],
                                                  std::uint32_t b0, std::uint32_t b1,
                                                  std::uint32_t scale_a, std::uint32_t scale_b) {
  static_assert((Byte == 0 || Byte == 2) && Lane < 4, "two neighbouring bytes are used");
  MICROSCALE_MMA_BLOCK_SCALED(
      "mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X"
      ".f32.e2m1.e2m1.f32.ue8m0");
}

// MXFP8, mixed, and MXFP4 in bytes: K is 32, one ue8m0 scale. Named after a's element, then b's.
#define MICROSCALE_MMA_MXF8F6F4(a_type, b_type)                                                   \
  template <int Byte, int Lane>                                                                   \
  __device__ inline void mma_m16n8k32_mxf8f6f4_##a_type##_##b_type(                               \
      float(&d)[4], const std::uint32_t(&a)[4], std::uint32_t b0, std::uint32_t b1,               \
      std::uint32_t scale_a, std::uint32_t scale_b) {                                             \
    static_assert(Byte < 4 && Lane < 4, "one byte is used");                                      \
    MICROSCALE_MMA_BLOCK_SCALED(                                                                  \
        "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32." #a_type \
        "." #b_type ".f32.ue8m0");                                                                \
  }

MICROSCALE_MMA_MXF8F6F4(e4m3, e4m3)
MICROSCALE_MMA_MXF8F6F4(e4m3, e5m2)
MICROSCALE_MMA_MXF8F6F4(e5m2, e4m3)
MICROSCALE_MMA_MXF8F6F4(e5m2, e5m2)
MICROSCALE_MMA_MXF8F6F4(e4m3, e2m1)
MICROSCALE_MMA_MXF8F6F4(e2m1, e2m1)

#undef MICROSCALE_MMA_MXF8F6F4
#undef MICROSCALE_MMA_BLOCK_SCALED

// Matrices of eight 16-byte rows from shared memory to the fragments of matrix instructions, back,
// or transposed in registers (PTX ISA, "ldmatrix", "stmatrix", "movmatrix"). Lane 8 q + r names row
// r of matrix q, which goes to register q: lane 4 g + t gets of row g the bytes 4 t to 4 t + 3.
// Shared addresses are 32-bit, multiples of 16.

/// Four matrices, bytes as they are. sm_75 and later.
__device__ inline void ldmatrix_m8n8_x4_b16(std::uint32_t (&d)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
               : "r"(address)
               : "memory");
}

/// Four matrices of 16-bit elements, each transposed: lane 4 g + t gets elements (2 t, g) and (2 t
/// + 1, g).
__device__ inline void ldmatrix_m8n8_x4_trans_b16(std::uint32_t (&d)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
               : "r"(address)
               : "memory");
}

/// Four matrices; a row is 16 elements of four bits in 8 bytes, then 8 bytes that do not count.
/// Element i of it becomes byte i, in bits 3-0. sm_100f and sm_120f.
__device__ inline void ldmatrix_m8n16_x4_b8x16_b4x16_p64(std::uint32_t (&d)[4],
                                                         std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n16.x4.shared.b8x16.b4x16_p64 {%0, %1, %2, %3}, [%4];"
               : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
               : "r"(address)
               : "memory");
}

/// Four matrices the other way, bytes as they are. sm_90 and later.
__device__ inline void stmatrix_m8n8_x4_b16(std::uint32_t address, const std::uint32_t (&a)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
               "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3])
               : "memory");
}

/// Four matrices of 16-bit elements the other way, each transposed: lane 8 q + r names where row r
/// of matrix q goes; lane 4 g + t has elements (2 t, g) and (2 t + 1, g). sm_90 and later.
__device__ inline void stmatrix_m8n8_x4_trans_b16(std::uint32_t address,
                                                  const std::uint32_t (&a)[4]) {
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
      "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3])
      : "memory");
}

/// Row g of eight 16-bit elements is in lanes 4 g to 4 g + 3; column g will be. sm_75 and later.
__device__ inline std::uint32_t movmatrix_trans_m8n8_b16(std::uint32_t a) {
  std::uint32_t d;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(d) : "r"(a));
  return d;
}

}  // namespace microscale::ptx
