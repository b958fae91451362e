// FP4 x FP4 with block scales (kinds mxf4 and mxf4nvf4, K = 64): groups of 16 products summed
// exactly, each group one term of a fused sum with 35 fraction bits.
#pragma once

#include <cstdint>

#include "emulator/tensor/number.hpp"

namespace microscale::emulator::tensor {

/// Twice an e2m1 value, which is an integer: 0, 1, 2, 3, 4, 6, 8, 12 and their negatives.
inline constexpr std::int8_t doubled_e2m1[16] = {0, 1,  2,  3,  4,  6,  8,  12,
                                                 0, -1, -2, -3, -4, -6, -8, -12};

struct Fp4Tile {
  alignas(16) std::int16_t a[16][64];  // doubled values, row by row
  alignas(16) std::int16_t b[64][8];   // doubled values, k by k
  std::uint8_t scale_a[16][4];         // `scales` of them are used
  std::uint8_t scale_b[8][4];
};

/// c and d: FP32 bits, 16 x 8. `scales`: 2 or 4 along K.
void block_scaled_fp4(const Fp4Tile& tile, ScaleType type, int scales, const std::uint32_t (*c)[8],
                      std::uint32_t (*d)[8]);

}  // namespace microscale::emulator::tensor
