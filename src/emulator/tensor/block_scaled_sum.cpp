// A group sum is at most 16 * 144 in quarters; with two scale significands of 4 bits it has 20
// bits. A row of D at a time, its 8 columns side by side, so that the compiler makes vectors of
// them.
#include "emulator/tensor/block_scaled_sum.hpp"

#include <algorithm>

#include "emulator/tensor/fused_sum.hpp"

namespace microscale::emulator::tensor {
namespace {

#if defined(__x86_64__)
#define MICROSCALE_AVX2 __attribute__((target("avx2")))
#endif

constexpr int kept_bits = 35, groups = 4;

/// Scales of the groups of a row of A, or of the 8 columns of B.
template <int Lines>
struct Scales {
  alignas(32) std::int32_t significand[groups][Lines];  // with 3 fraction bits
  alignas(32) std::int32_t exponent[groups][Lines];
  bool nan[Lines];
};

template <int Lines>
Scales<Lines> scales_of(ScaleType type, int scales, const std::uint8_t (*codes)[4]) {
  Scales<Lines> out{};
  const int up = type == ScaleType::ue4m3 ? 0 : 3;
  for (int line = 0; line < Lines; ++line)
    for (int group = 0; group < groups; ++group) {
      const Number number = scale_number(type, codes[line][group * scales / groups]);
      out.significand[group][line] = number.significand << up;
      out.exponent[group][line] = number.exponent;
      out.nan[line] |= number.kind == Class::nan;
    }
  return out;
}

/// Sums over 16 consecutive k of one row of A with the 8 columns of B: quarters, below 2^12.
[[gnu::always_inline]] inline void group_sums(const std::int16_t* a, const std::int16_t (*b)[8],
                                              std::int16_t (&sums)[groups][8]) {
  for (int group = 0; group < groups; ++group) {
    std::int16_t sum[8] = {};
    for (int k = 16 * group; k < 16 * group + 16; ++k)
      for (int column = 0; column < 8; ++column)
        sum[column] = static_cast<std::int16_t>(sum[column] + a[k] * b[k][column]);
    for (int column = 0; column < 8; ++column) sums[group][column] = sum[column];
  }
}

struct Row {
  std::int64_t sum[8];
  std::int32_t largest[8];
};

/// Terms are shifted up as far as they can be needed, then cut to the common unit toward zero.
[[gnu::always_inline]] inline void row_of_sums(const std::int16_t* a, const std::int16_t (*b)[8],
                                               const Scales<1>& scale_a, const Scales<8>& scale_b,
                                               const std::int32_t (&start)[8],
                                               const std::int32_t (&start_exponent)[8], Row& row) {
  std::int16_t sums[groups][8];
  group_sums(a, b, sums);
  for (int column = 0; column < 8; ++column) {
    row.largest[column] =
        start_exponent[column] > smallest_alignment ? start_exponent[column] : smallest_alignment;
  }
  for (int group = 0; group < groups; ++group)
    for (int column = 0; column < 8; ++column) {
      const std::int32_t exponent = scale_a.exponent[group][0] + scale_b.exponent[group][column];
      row.largest[column] = exponent > row.largest[column] ? exponent : row.largest[column];
    }
  const auto cut = [](std::int64_t term, int up, std::int32_t distance) {
    const std::int64_t sign = term < 0 ? -1 : 0;
    const auto magnitude = static_cast<std::uint64_t>((term ^ sign) - sign) << up;
    distance = distance < 63 ? distance : 63;
    return (static_cast<std::int64_t>(magnitude >> distance) ^ sign) - sign;
  };
  for (int column = 0; column < 8; ++column)
    row.sum[column] =
        cut(start[column], kept_bits - 23, row.largest[column] - start_exponent[column]);
  for (int group = 0; group < groups; ++group)
    for (int column = 0; column < 8; ++column) {
      const std::int32_t term =
          sums[group][column] * scale_a.significand[group][0] * scale_b.significand[group][column];
      const std::int32_t exponent = scale_a.exponent[group][0] + scale_b.exponent[group][column];
      // Quarters, times eighths twice: 8 fraction bits.
      row.sum[column] += cut(term, kept_bits - 8, row.largest[column] - exponent);
    }
}

void row_portable(const std::int16_t* a, const std::int16_t (*b)[8], const Scales<1>& scale_a,
                  const Scales<8>& scale_b, const std::int32_t (&start)[8],
                  const std::int32_t (&start_exponent)[8], Row& row) {
  row_of_sums(a, b, scale_a, scale_b, start, start_exponent, row);
}

#ifdef MICROSCALE_AVX2
MICROSCALE_AVX2 void row_avx2(const std::int16_t* a, const std::int16_t (*b)[8],
                              const Scales<1>& scale_a, const Scales<8>& scale_b,
                              const std::int32_t (&start)[8],
                              const std::int32_t (&start_exponent)[8], Row& row) {
  row_of_sums(a, b, scale_a, scale_b, start, start_exponent, row);
}
const auto one_row = __builtin_cpu_supports("avx2") ? row_avx2 : row_portable;
#else
constexpr auto one_row = row_portable;
#endif

}  // namespace

void block_scaled_fp4(const Fp4Tile& tile, ScaleType type, int scales, const std::uint32_t (*c)[8],
                      std::uint32_t (*d)[8]) {
  const Scales<8> scale_b = scales_of<8>(type, scales, tile.scale_b);
  for (int row = 0; row < 16; ++row) {
    const Scales<1> scale_a = scales_of<1>(type, scales, tile.scale_a + row);
    std::int32_t start[8], start_exponent[8];
    Class kind[8];
    for (int column = 0; column < 8; ++column) {
      const Number number = accumulator_number(Result::f32, c[row][column]);
      start[column] = number.significand;
      start_exponent[column] = number.exponent;
      kind[column] = number.kind;
    }
    Row sums;
    one_row(tile.a[row], tile.b, scale_a, scale_b, start, start_exponent, sums);
    for (int column = 0; column < 8; ++column) {
      if (scale_a.nan[0] || scale_b.nan[column] || kind[column] == Class::nan)
        d[row][column] = tensor_nan_f32;
      else if (kind[column] == Class::infinite)
        d[row][column] = c[row][column];
      else
        d[row][column] = round_sum(Output::f32, sums.sum[column], sums.largest[column] - kept_bits);
    }
  }
}

}  // namespace microscale::emulator::tensor
