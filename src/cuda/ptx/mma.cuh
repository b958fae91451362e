// Matrix products of a warp (PTX ISA, "mma"): d = A B + d. sm_80 and later.
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

}  // namespace microscale::ptx
