// How a family's generic text becomes two sets of handlers, portable and AVX2. A family's .cpp
// includes what it needs, this file, and then its text twice:
//
//   MICROSCALE_PORTABLE_BEGIN          MICROSCALE_EMULATOR_AVX2_BEGIN
//   #include "emulator/ops/generic/..."
//   MICROSCALE_PORTABLE_END            MICROSCALE_EMULATOR_AVX2_END
//
// Like src/cpu/target_region.hpp: nothing in the text is a lambda or instantiates a template that
// is defined outside its namespace.
#pragma once

#include <bit>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>

#include "emulator/machine/warp.hpp"
#include "emulator/ops/handler.hpp"

#if defined(__clang__)
#define MICROSCALE_LANES _Pragma("clang loop vectorize(assume_safety)")
#else
#define MICROSCALE_LANES _Pragma("GCC ivdep")
#endif

#define MICROSCALE_PORTABLE_BEGIN namespace microscale::emulator::portable {
#define MICROSCALE_PORTABLE_END }
#if defined(__clang__)
#define MICROSCALE_EMULATOR_AVX2_BEGIN                                          \
  _Pragma(                                                                      \
      "clang attribute push(__attribute__((target(\"avx2,fma\"))), apply_to = " \
      "function)") namespace microscale::emulator::avx2 {
#define MICROSCALE_EMULATOR_AVX2_END \
  }                                  \
  _Pragma("clang attribute pop")
#else
#define MICROSCALE_EMULATOR_AVX2_BEGIN \
  _Pragma("GCC push_options")          \
      _Pragma("GCC target(\"avx2,fma\")") namespace microscale::emulator::avx2 {
#define MICROSCALE_EMULATOR_AVX2_END \
  }                                  \
  _Pragma("GCC pop_options")
#endif

namespace microscale::emulator {

/// Bit i for lane i, as a vector that loops can load.
alignas(64) inline constexpr std::uint32_t lane_bit[32] = {
    1u << 0,  1u << 1,  1u << 2,  1u << 3,  1u << 4,  1u << 5,  1u << 6,  1u << 7,
    1u << 8,  1u << 9,  1u << 10, 1u << 11, 1u << 12, 1u << 13, 1u << 14, 1u << 15,
    1u << 16, 1u << 17, 1u << 18, 1u << 19, 1u << 20, 1u << 21, 1u << 22, 1u << 23,
    1u << 24, 1u << 25, 1u << 26, 1u << 27, 1u << 28, 1u << 29, 1u << 30, 1u << 31};

inline bool has_avx2() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return false;
#endif
}

}  // namespace microscale::emulator
