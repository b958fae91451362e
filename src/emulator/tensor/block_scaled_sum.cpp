// A group sum is at most 16 * 144 in quarters; with two scale significands of 4 bits it has 20 bits.
#include "emulator/tensor/block_scaled_sum.hpp"

#include <algorithm>
#include <cstdlib>

#include "emulator/tensor/fused_sum.hpp"

namespace microscale::emulator::tensor {
namespace {

constexpr int kept_bits = 35, groups = 4;

struct Scale {
  std::int32_t significand = 0;  // with 3 fraction bits
  std::int32_t exponent = 0;
  bool nan = false;
};

Scale scale_of(ScaleType type, std::uint8_t code) {
  const Number number = scale_number(type, code);
  const int up = type == ScaleType::ue4m3 ? 0 : 3;
  return {number.significand << up, number.exponent, number.kind == Class::nan};
}

/// Sums over 16 consecutive k of one row of A with the 8 columns of B: quarters, below 2^12.
void group_sums(const std::int16_t* a, const std::int16_t (*b)[8], std::int16_t (&sums)[groups][8]) {
  for (int group = 0; group < groups; ++group) {
    std::int16_t sum[8] = {};
    for (int k = 16 * group; k < 16 * group + 16; ++k)
      for (int column = 0; column < 8; ++column)
        sum[column] = static_cast<std::int16_t>(sum[column] + a[k] * b[k][column]);
    std::copy(sum, sum + 8, sums[group]);
  }
}

/// `value` * 2^shift toward zero.
std::int64_t cut(std::int64_t value, int shift) {
  if (shift >= 0) return value << shift;
  if (shift < -62) return 0;
  const std::int64_t magnitude = (value < 0 ? -value : value) >> -shift;
  return value < 0 ? -magnitude : magnitude;
}

}  // namespace

void block_scaled_fp4(const Fp4Tile& tile, ScaleType type, int scales,
                      const std::uint32_t (*c)[8], std::uint32_t (*d)[8]) {
  Scale scale_b[8][groups];
  for (int column = 0; column < 8; ++column)
    for (int group = 0; group < groups; ++group)
      scale_b[column][group] = scale_of(type, tile.scale_b[column][group * scales / groups]);
  for (int row = 0; row < 16; ++row) {
    std::int16_t sums[groups][8];
    group_sums(tile.a[row], tile.b, sums);
    Scale scale_a[groups];
    for (int group = 0; group < groups; ++group)
      scale_a[group] = scale_of(type, tile.scale_a[row][group * scales / groups]);
    for (int column = 0; column < 8; ++column) {
      const Number start = accumulator_number(Result::f32, c[row][column]);
      bool nan = start.kind == Class::nan;
      int largest = start.exponent;
      for (int group = 0; group < groups; ++group) {
        nan |= scale_a[group].nan || scale_b[column][group].nan;
        largest = std::max(largest, scale_a[group].exponent + scale_b[column][group].exponent);
      }
      if (nan || start.kind == Class::infinite) {
        d[row][column] = nan ? tensor_nan_f32 : c[row][column];
        continue;
      }
      std::int64_t sum = cut(start.significand, kept_bits - 23 + start.exponent - largest);
      for (int group = 0; group < groups; ++group) {
        const Scale &sa = scale_a[group], &sb = scale_b[column][group];
        const std::int64_t term =
            static_cast<std::int64_t>(sums[group][column]) * (sa.significand * sb.significand);
        // Quarters, times eighths twice: 8 fraction bits.
        sum += cut(term, kept_bits - 8 + sa.exponent + sb.exponent - largest);
      }
      d[row][column] = round_sum(Output::f32, sum, largest - kept_bits);
    }
  }
}

}  // namespace microscale::emulator::tensor
