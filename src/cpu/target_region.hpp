// The region of a source file in which one instruction set may be used. It is opened after every
// include and closed at the end: a file-wide -mavx2 would also compile shared inline functions of
// the headers with those instructions, and the linker might keep that copy for machines that lack
// them. For the same reason nothing inside a region instantiates or defines a function outside its
// own namespace.
//
//   MICROSCALE_AVX2_BEGIN     opens the region and namespace microscale::avx2
//   MICROSCALE_AVX2_END
//
// and likewise for AVX512 and AMX.
//
// src/cpu/generic/*.hpp are included inside a region, once per instruction set: the same text over
// the vector types of avx2/vector.hpp or avx512/vector.hpp. No lambdas there: g++ would not give
// them the region's instructions.
#pragma once

// g++ 12 takes the deliberately undefined operands inside its own header for a mistake.
#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>
#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif

/// Before a loop of constant length whose vectors must stay in registers.
#if defined(__clang__)
#define MICROSCALE_UNROLL _Pragma("clang loop unroll(full)")
#else
#define MICROSCALE_UNROLL _Pragma("GCC unroll 32")
#endif

#define MICROSCALE_PRAGMA(...) _Pragma(#__VA_ARGS__)
#if defined(__clang__)
#define MICROSCALE_TARGET_BEGIN(features) \
  MICROSCALE_PRAGMA(clang attribute push(__attribute__((target(features))), apply_to = function))
#define MICROSCALE_TARGET_END _Pragma("clang attribute pop")
#else
#define MICROSCALE_TARGET_BEGIN(features) \
  _Pragma("GCC push_options") MICROSCALE_PRAGMA(GCC target(features))
#define MICROSCALE_TARGET_END _Pragma("GCC pop_options")
#endif

#define MICROSCALE_AVX2_BEGIN                   \
  MICROSCALE_TARGET_BEGIN("avx2,fma,f16c,bmi2") \
  namespace microscale::avx2 {
#define MICROSCALE_AVX2_END \
  }                         \
  MICROSCALE_TARGET_END
#define MICROSCALE_AVX512_BEGIN                                                    \
  MICROSCALE_TARGET_BEGIN("avx2,fma,f16c,bmi2,avx512f,avx512bw,avx512vl,avx512dq") \
  namespace microscale::avx512 {
#define MICROSCALE_AVX512_END MICROSCALE_AVX2_END
#define MICROSCALE_VNNI_BEGIN                                                                 \
  MICROSCALE_TARGET_BEGIN("avx2,fma,f16c,bmi2,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni") \
  namespace microscale::vnni {
#define MICROSCALE_VNNI_END MICROSCALE_AVX2_END
#define MICROSCALE_AMX_BEGIN                                                                      \
  MICROSCALE_TARGET_BEGIN(                                                                        \
      "avx2,fma,f16c,bmi2,avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,avx512fp16,amx-tile,amx-" \
      "bf16")                                                                                     \
  namespace microscale::amx {
#define MICROSCALE_AMX_END MICROSCALE_AVX2_END
