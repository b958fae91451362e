// The operands of wgmma.mma_async as inline assembly has them: its accumulators, 8, 16, 32, 64, 96
// or 128 registers of every thread, are operands 0 on; A, B and whether to accumulate follow. For
// the functions of wgmma_f16.cuh, wgmma_e4m3.cuh and wgmma_e5m2.cuh only.
#pragma once

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
