// Products of a warpgroup: four warps of which the first is a multiple of four (PTX ISA,
// "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Operation"). sm_90a. All 128 threads
// execute each of these.
//
// A product is d += A B^T, or d = A B^T unless `accumulate`, into f32. A is 64 rows of 32 bytes,
// from shared memory by descriptor or from registers; B is N rows of 32 bytes by descriptor; both
// K-major, but B of `transposed`, which is MN-major: rows of B lie across K.
//
// Thread t of the 128 has of D, register i: row 16 (t / 32) + t % 32 / 4 + 8 (i / 2 % 2), column
// 8 (i / 4) + 2 (t % 4) + i % 2. Of A, register r holds row 16 (t / 32) + t % 32 / 4 + 8 (r % 2);
//   f16, bf16: K 2 (t % 4) + 8 (r / 2) in its low half and the next in its high one;
//   e4m3, e5m2: K 4 (t % 4) + 16 (r / 2) in its lowest byte and the next ones behind.
// Sums of E4M3 and E5M2 keep 13 bits behind the leading one (emulator/tensor).
#pragma once

#include <cstdint>

namespace microscale::ptx {

/// "wgmma.fence": accumulators and parts of A that this warp has touched are safe for the products
/// that follow. Before the first one, and whenever other instructions have had such a register.
__device__ inline void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

/// "wgmma.commit_group": the products since the last one become a group.
__device__ inline void wgmma_commit_group() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/// "wgmma.wait_group": until at most `Pending` groups are under way. Only then may the registers of
/// the others be touched and the shared memory that they read be overwritten.
template <int Pending>
__device__ inline void wgmma_wait_group() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}

// The matrix descriptor (PTX ISA, "Matrix Descriptor"): 64 bits that say where a matrix in shared
// memory begins, how far apart its groups of eight rows lie, and how its chunks of 16 bytes are
// permuted.

/// Chunks of 16 bytes change places within rows of that many bytes, as tensor maps of the same
/// swizzle put them: chunk c of row r stands at c ^ (r % 8) for 128 bytes.
enum class MatrixSwizzle : std::uint64_t { none = 0, bytes128 = 1, bytes64 = 2, bytes32 = 3 };

/// `start`: 32-bit shared address, a multiple of 16; with a swizzle its pattern (1024, 512 or 256
/// bytes) begins at a multiple of its size. Offsets in bytes, multiples of 16. K-major: `stride`
/// from eight rows to the next eight; `leading` from one chunk along K to the next, without a
/// swizzle only. MN-major: see emulator/tensor/matrix_descriptor.hpp, which has both as formulas.
__host__ __device__ constexpr std::uint64_t matrix_descriptor(std::uint32_t start,
                                                              std::uint32_t leading,
                                                              std::uint32_t stride,
                                                              MatrixSwizzle swizzle) {
  return static_cast<std::uint64_t>(start >> 4 & 0x3FFF) |
         static_cast<std::uint64_t>(leading >> 4 & 0x3FFF) << 16 |
         static_cast<std::uint64_t>(stride >> 4 & 0x3FFF) << 32 |
         static_cast<std::uint64_t>(swizzle) << 62;
}

/// K-major rows of 128 bytes, swizzled, one behind the other from a multiple of 1024 on.
__host__ __device__ constexpr std::uint64_t matrix_descriptor_rows128(std::uint32_t start) {
  return matrix_descriptor(start, 16, 1024, MatrixSwizzle::bytes128);
}

/// The same matrix, `bytes` further on: 32 are the next K of an instruction.
__host__ __device__ constexpr std::uint64_t advance(std::uint64_t descriptor, std::uint32_t bytes) {
  return descriptor + (bytes >> 4);
}

// The operands as inline assembly has them: the accumulators, 8, 16, 32, 64, 96 or 128 registers of
// every thread, are operands 0 on; A, B and whether to accumulate follow.

#define MICROSCALE_WGMMA_D8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define MICROSCALE_WGMMA_D16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define MICROSCALE_WGMMA_D32                                               \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define MICROSCALE_WGMMA_D64                                                         \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "           \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define MICROSCALE_WGMMA_D96                 \
  MICROSCALE_WGMMA_D64                       \
  ", "                                       \
  "%64, %65, %66, %67, %68, %69, %70, %71, " \
  "%72, %73, %74, %75, %76, %77, %78, %79, " \
  "%80, %81, %82, %83, %84, %85, %86, %87, " \
  "%88, %89, %90, %91, %92, %93, %94, %95"
#define MICROSCALE_WGMMA_D128                        \
  MICROSCALE_WGMMA_D64                               \
  ", "                                               \
  "%64, %65, %66, %67, %68, %69, %70, %71, "         \
  "%72, %73, %74, %75, %76, %77, %78, %79, "         \
  "%80, %81, %82, %83, %84, %85, %86, %87, "         \
  "%88, %89, %90, %91, %92, %93, %94, %95, "         \
  "%96, %97, %98, %99, %100, %101, %102, %103, "     \
  "%104, %105, %106, %107, %108, %109, %110, %111, " \
  "%112, %113, %114, %115, %116, %117, %118, %119, " \
  "%120, %121, %122, %123, %124, %125, %126, %127"

#define MICROSCALE_WGMMA_FLOATS_4(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define MICROSCALE_WGMMA_FLOATS_16(d, i)                                \
  MICROSCALE_WGMMA_FLOATS_4(d, i), MICROSCALE_WGMMA_FLOATS_4(d, i + 4), \
      MICROSCALE_WGMMA_FLOATS_4(d, i + 8), MICROSCALE_WGMMA_FLOATS_4(d, i + 12)
#define MICROSCALE_WGMMA_FLOATS_32(d, i) \
  MICROSCALE_WGMMA_FLOATS_16(d, i), MICROSCALE_WGMMA_FLOATS_16(d, i + 16)
#define MICROSCALE_WGMMA_FLOATS_64(d, i)                                   \
  MICROSCALE_WGMMA_FLOATS_16(d, i), MICROSCALE_WGMMA_FLOATS_16(d, i + 16), \
      MICROSCALE_WGMMA_FLOATS_16(d, i + 32), MICROSCALE_WGMMA_FLOATS_16(d, i + 48)

// `spelling`: what follows .aligned; `majors`: the immediates of a type whose operands may be
// transposed. `p` is operand `accumulate`, as a predicate.
#define MICROSCALE_WGMMA_TEXT(spelling, registers, operands, accumulate, majors) \
  "{\n.reg .pred p;\nsetp.ne.b32 p, " accumulate                                 \
  ", 0;\n"                                                                       \
  "wgmma.mma_async.sync.aligned." spelling " {" registers "}, " operands ", p, 1, 1" majors ";\n}"

// Functions (float (&d)[8, 16, 32, 64, 96 or 128], A, std::uint64_t b, bool accumulate). Shared: A
// is a descriptor.
#define MICROSCALE_WGMMA_32_SHARED(spelling, majors)                                            \
  asm volatile(MICROSCALE_WGMMA_TEXT(spelling, MICROSCALE_WGMMA_D32, "%32, %33", "%34", majors) \
               : MICROSCALE_WGMMA_FLOATS_32(d, 0)                                               \
               : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)))
#define MICROSCALE_WGMMA_64_SHARED(spelling, majors)                                            \
  asm volatile(MICROSCALE_WGMMA_TEXT(spelling, MICROSCALE_WGMMA_D64, "%64, %65", "%66", majors) \
               : MICROSCALE_WGMMA_FLOATS_64(d, 0)                                               \
               : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)))
#define MICROSCALE_WGMMA_96_SHARED(spelling, majors)                                            \
  asm volatile(MICROSCALE_WGMMA_TEXT(spelling, MICROSCALE_WGMMA_D96, "%96, %97", "%98", majors) \
               : MICROSCALE_WGMMA_FLOATS_64(d, 0), MICROSCALE_WGMMA_FLOATS_32(d, 64)            \
               : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)))
#define MICROSCALE_WGMMA_128_SHARED(spelling, majors)                                      \
  asm volatile(                                                                            \
      MICROSCALE_WGMMA_TEXT(spelling, MICROSCALE_WGMMA_D128, "%128, %129", "%130", majors) \
      : MICROSCALE_WGMMA_FLOATS_64(d, 0), MICROSCALE_WGMMA_FLOATS_64(d, 64)                \
      : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)))
#define MICROSCALE_WGMMA_8_REGISTERS(spelling, majors)                                         \
  asm volatile(MICROSCALE_WGMMA_TEXT(spelling, MICROSCALE_WGMMA_D8, "{%8, %9, %10, %11}, %12", \
                                     "%13", majors)                                            \
               : MICROSCALE_WGMMA_FLOATS_4(d, 0), MICROSCALE_WGMMA_FLOATS_4(d, 4)              \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b),                           \
                 "r"(static_cast<int>(accumulate)))
#define MICROSCALE_WGMMA_16_REGISTERS(spelling, majors)                                           \
  asm volatile(MICROSCALE_WGMMA_TEXT(spelling, MICROSCALE_WGMMA_D16, "{%16, %17, %18, %19}, %20", \
                                     "%21", majors)                                               \
               : MICROSCALE_WGMMA_FLOATS_16(d, 0)                                                 \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b),                              \
                 "r"(static_cast<int>(accumulate)))
#define MICROSCALE_WGMMA_32_REGISTERS(spelling, majors)                                           \
  asm volatile(MICROSCALE_WGMMA_TEXT(spelling, MICROSCALE_WGMMA_D32, "{%32, %33, %34, %35}, %36", \
                                     "%37", majors)                                               \
               : MICROSCALE_WGMMA_FLOATS_32(d, 0)                                                 \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b),                              \
                 "r"(static_cast<int>(accumulate)))
#define MICROSCALE_WGMMA_64_REGISTERS(spelling, majors)                                           \
  asm volatile(MICROSCALE_WGMMA_TEXT(spelling, MICROSCALE_WGMMA_D64, "{%64, %65, %66, %67}, %68", \
                                     "%69", majors)                                               \
               : MICROSCALE_WGMMA_FLOATS_64(d, 0)                                                 \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b),                              \
                 "r"(static_cast<int>(accumulate)))
#define MICROSCALE_WGMMA_96_REGISTERS(spelling, majors)                                            \
  asm volatile(MICROSCALE_WGMMA_TEXT(spelling, MICROSCALE_WGMMA_D96, "{%96, %97, %98, %99}, %100", \
                                     "%101", majors)                                               \
               : MICROSCALE_WGMMA_FLOATS_64(d, 0), MICROSCALE_WGMMA_FLOATS_32(d, 64)               \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b),                               \
                 "r"(static_cast<int>(accumulate)))
#define MICROSCALE_WGMMA_128_REGISTERS(spelling, majors)                               \
  asm volatile(MICROSCALE_WGMMA_TEXT(spelling, MICROSCALE_WGMMA_D128,                  \
                                     "{%128, %129, %130, %131}, %132", "%133", majors) \
               : MICROSCALE_WGMMA_FLOATS_64(d, 0), MICROSCALE_WGMMA_FLOATS_64(d, 64)   \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b),                   \
                 "r"(static_cast<int>(accumulate)))

// f16 and bf16: K is 16.

__device__ inline void wgmma_m64n16k16_f32_f16_f16(float (&d)[8], const std::uint32_t (&a)[4],
                                                   std::uint64_t b, bool accumulate) {
  MICROSCALE_WGMMA_8_REGISTERS("m64n16k16.f32.f16.f16", ", 0");
}

__device__ inline void wgmma_m64n32k16_f32_f16_f16(float (&d)[16], const std::uint32_t (&a)[4],
                                                   std::uint64_t b, bool accumulate) {
  MICROSCALE_WGMMA_16_REGISTERS("m64n32k16.f32.f16.f16", ", 0");
}

__device__ inline void wgmma_m64n64k16_f32_f16_f16(float (&d)[32], const std::uint32_t (&a)[4],
                                                   std::uint64_t b, bool accumulate) {
  MICROSCALE_WGMMA_32_REGISTERS("m64n64k16.f32.f16.f16", ", 0");
}

__device__ inline void wgmma_m64n64k16_f32_f16_f16(float (&d)[32], std::uint64_t a, std::uint64_t b,
                                                   bool accumulate) {
  MICROSCALE_WGMMA_32_SHARED("m64n64k16.f32.f16.f16", ", 0, 0");
}

__device__ inline void wgmma_m64n64k16_f32_f16_f16_transposed(float (&d)[32],
                                                              const std::uint32_t (&a)[4],
                                                              std::uint64_t b, bool accumulate) {
  MICROSCALE_WGMMA_32_REGISTERS("m64n64k16.f32.f16.f16", ", 1");
}

__device__ inline void wgmma_m64n128k16_f32_f16_f16_transposed(float (&d)[64],
                                                               const std::uint32_t (&a)[4],
                                                               std::uint64_t b, bool accumulate) {
  MICROSCALE_WGMMA_64_REGISTERS("m64n128k16.f32.f16.f16", ", 1");
}

__device__ inline void wgmma_m64n256k16_f32_f16_f16_transposed(float (&d)[128],
                                                               const std::uint32_t (&a)[4],
                                                               std::uint64_t b, bool accumulate) {
  MICROSCALE_WGMMA_128_REGISTERS("m64n256k16.f32.f16.f16", ", 1");
}

__device__ inline void wgmma_m64n128k16_f32_f16_f16(float (&d)[64], std::uint64_t a,
                                                    std::uint64_t b, bool accumulate) {
  MICROSCALE_WGMMA_64_SHARED("m64n128k16.f32.f16.f16", ", 0, 0");
}

__device__ inline void wgmma_m64n128k16_f32_f16_f16(float (&d)[64], const std::uint32_t (&a)[4],
                                                    std::uint64_t b, bool accumulate) {
  MICROSCALE_WGMMA_64_REGISTERS("m64n128k16.f32.f16.f16", ", 0");
}

__device__ inline void wgmma_m64n256k16_f32_f16_f16(float (&d)[128], std::uint64_t a,
                                                    std::uint64_t b, bool accumulate) {
  MICROSCALE_WGMMA_128_SHARED("m64n256k16.f32.f16.f16", ", 0, 0");
}

__device__ inline void wgmma_m64n192k16_f32_f16_f16(float (&d)[96], const std::uint32_t (&a)[4],
                                                    std::uint64_t b, bool accumulate) {
  MICROSCALE_WGMMA_96_REGISTERS("m64n192k16.f32.f16.f16", ", 0");
}

__device__ inline void wgmma_m64n256k16_f32_f16_f16(float (&d)[128], const std::uint32_t (&a)[4],
                                                    std::uint64_t b, bool accumulate) {
  MICROSCALE_WGMMA_128_REGISTERS("m64n256k16.f32.f16.f16", ", 0");
}

__device__ inline void wgmma_m64n16k16_f32_bf16_bf16(float (&d)[8], const std::uint32_t (&a)[4],
                                                     std::uint64_t b, bool accumulate) {
  MICROSCALE_WGMMA_8_REGISTERS("m64n16k16.f32.bf16.bf16", ", 0");
}

__device__ inline void wgmma_m64n32k16_f32_bf16_bf16(float (&d)[16], const std::uint32_t (&a)[4],
                                                     std::uint64_t b, bool accumulate) {
  MICROSCALE_WGMMA_16_REGISTERS("m64n32k16.f32.bf16.bf16", ", 0");
}

__device__ inline void wgmma_m64n64k16_f32_bf16_bf16(float (&d)[32], const std::uint32_t (&a)[4],
                                                     std::uint64_t b, bool accumulate) {
  MICROSCALE_WGMMA_32_REGISTERS("m64n64k16.f32.bf16.bf16", ", 0");
}

__device__ inline void wgmma_m64n128k16_f32_bf16_bf16(float (&d)[64], std::uint64_t a,
                                                      std::uint64_t b, bool accumulate) {
  MICROSCALE_WGMMA_64_SHARED("m64n128k16.f32.bf16.bf16", ", 0, 0");
}

__device__ inline void wgmma_m64n128k16_f32_bf16_bf16(float (&d)[64], const std::uint32_t (&a)[4],
                                                      std::uint64_t b, bool accumulate) {
  MICROSCALE_WGMMA_64_REGISTERS("m64n128k16.f32.bf16.bf16", ", 0");
}

__device__ inline void wgmma_m64n256k16_f32_bf16_bf16(float (&d)[128], std::uint64_t a,
                                                      std::uint64_t b, bool accumulate) {
  MICROSCALE_WGMMA_128_SHARED("m64n256k16.f32.bf16.bf16", ", 0, 0");
}

__device__ inline void wgmma_m64n192k16_f32_bf16_bf16(float (&d)[96], const std::uint32_t (&a)[4],
                                                      std::uint64_t b, bool accumulate) {
  MICROSCALE_WGMMA_96_REGISTERS("m64n192k16.f32.bf16.bf16", ", 0");
}

__device__ inline void wgmma_m64n256k16_f32_bf16_bf16(float (&d)[128], const std::uint32_t (&a)[4],
                                                      std::uint64_t b, bool accumulate) {
  MICROSCALE_WGMMA_128_REGISTERS("m64n256k16.f32.bf16.bf16", ", 0");
}

// E4M3 and E5M2, named after A's element, then B's: K is 32.

__device__ inline void wgmma_m64n128k32_f32_e4m3_e4m3(float (&d)[64], std::uint64_t a,
                                                      std::uint64_t b, bool accumulate) {
  MICROSCALE_WGMMA_64_SHARED("m64n128k32.f32.e4m3.e4m3", "");
}

__device__ inline void wgmma_m64n128k32_f32_e4m3_e4m3(float (&d)[64], const std::uint32_t (&a)[4],
                                                      std::uint64_t b, bool accumulate) {
  MICROSCALE_WGMMA_64_REGISTERS("m64n128k32.f32.e4m3.e4m3", "");
}

__device__ inline void wgmma_m64n256k32_f32_e4m3_e4m3(float (&d)[128], std::uint64_t a,
                                                      std::uint64_t b, bool accumulate) {
  MICROSCALE_WGMMA_128_SHARED("m64n256k32.f32.e4m3.e4m3", "");
}

__device__ inline void wgmma_m64n256k32_f32_e4m3_e4m3(float (&d)[128], const std::uint32_t (&a)[4],
                                                      std::uint64_t b, bool accumulate) {
  MICROSCALE_WGMMA_128_REGISTERS("m64n256k32.f32.e4m3.e4m3", "");
}

__device__ inline void wgmma_m64n192k32_f32_e5m2_e5m2(float (&d)[96], std::uint64_t a,
                                                      std::uint64_t b, bool accumulate) {
  MICROSCALE_WGMMA_96_SHARED("m64n192k32.f32.e5m2.e5m2", "");
}

__device__ inline void wgmma_m64n192k32_f32_e5m2_e5m2(float (&d)[96], const std::uint32_t (&a)[4],
                                                      std::uint64_t b, bool accumulate) {
  MICROSCALE_WGMMA_96_REGISTERS("m64n192k32.f32.e5m2.e5m2", "");
}

__device__ inline void wgmma_m64n128k32_f32_e5m2_e5m2(float (&d)[64], std::uint64_t a,
                                                      std::uint64_t b, bool accumulate) {
  MICROSCALE_WGMMA_64_SHARED("m64n128k32.f32.e5m2.e5m2", "");
}

__device__ inline void wgmma_m64n64k32_f32_e4m3_e5m2(float (&d)[32], const std::uint32_t (&a)[4],
                                                     std::uint64_t b, bool accumulate) {
  MICROSCALE_WGMMA_32_REGISTERS("m64n64k32.f32.e4m3.e5m2", "");
}

}  // namespace microscale::ptx
