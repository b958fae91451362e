// Coefficients of the special function unit, learned from an H200 (docs/emulator.md says how).
#pragma once

#include <cstdint>

namespace microscale::emulator {

/// One segment: c0 + c1 x + c2 x^2, in fixed point; special_functions.cpp aligns the three.
struct Parabola {
  std::int32_t c0, c1, c2;
};

extern const Parabola ex2_rows[64];     // 2^x, x in [0, 1)
extern const Parabola lg2_rows[64];     // log2 x, x in [1, 2)
extern const Parabola rcp_rows[128];    // 1 / x, x in [1, 2)
extern const Parabola rsqrt_rows[128];  // 1 / sqrt x, x in [1, 2) and [2, 4): 64 rows each
extern const Parabola sin_rows[64];     // sin x, x in [0, 1) quarter turns
extern const Parabola sqrt_rows[128];   // sqrt x, as rsqrt_rows
extern const Parabola tanh_rows[51];    // tanh x, x in [1/256, 8): 1 to 16 rows for a power of two

}  // namespace microscale::emulator
