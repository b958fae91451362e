// How many roundings of 2^-24 a term of a sum may go through: the tables of docs/matmul.md,
// docs/matmul_hopper.md and docs/attention.md, written down a second time. Tests take their bounds
// from here, never from the code under test, which states its own counts
// (MatmulKernels::roundings, AttentionKernels::roundings): roundings_test.cpp compares the two.
#pragma once

#include <algorithm>
#include <cstdint>

#include "microscale/context.hpp"

namespace microscale::test {

constexpr std::int64_t rounded_up(std::int64_t value, std::int64_t divisor) {
  return (value + divisor - 1) / divisor;
}

/// Of a product on a CPU, whatever its number of rows: docs/matmul.md, "What is computed, and the
/// bound". The reference sums in FP64 and has none.
constexpr std::int64_t product_roundings(Backend backend, std::int64_t k) {
  const std::int64_t many_rows = std::min<std::int64_t>(k, 128) + rounded_up(k, 128);
  const std::int64_t avx2 = std::max(2 * rounded_up(k, 64) + 18, many_rows),
                     avx512 = std::max(4 * rounded_up(k, 128) + 22, many_rows);
  switch (backend) {
    case Backend::avx2:
      return avx2;
    case Backend::avx512:
      return avx512;
    case Backend::amx:
      return std::max(k + 8, avx512);
    default:
      return 0;
  }
}

/// Of a product on Hopper for many rows, in 16 bits: docs/matmul_hopper.md, "The bound". 11 for
/// each instruction of 16 elements, k filled up to whole chunks of 64; 8 for the ranges of k.
constexpr std::int64_t hopper_roundings(std::int64_t k) { return 11 * (rounded_up(k, 64) * 4) + 8; }

/// The same in FP8: 140 of 2^-13 for a chunk of 128 elements, then an addition a chunk, then those
/// of ranges of k and the factor. It is wide: a lost chunk of a long row stays within it. So
/// products in FP8 are also held to exact results (exact_products.hpp).
constexpr std::int64_t hopper_fp8_roundings(std::int64_t k) {
  return (std::int64_t{140} << 11) + rounded_up(k, 128) + 2;
}

/// Of attention: docs/attention.md, "The bound". `query` and `weight` are those of FP4 keys that
/// are multiplied as integers, which rows of d <= 64 are not: 2^-15 of the largest integer, which
/// is one less than 2^15.
struct AttentionTolerance {
  std::int64_t score = 0, output = 0, query = 0, weight = 0;
};
constexpr AttentionTolerance attention_roundings(Backend backend, std::int64_t keys,
                                                 std::int64_t d) {
  const std::int64_t output = 2 * (keys / 32) + 44, integers = d > 64 ? (1 << 9) + 1 : 0;
  const AttentionTolerance avx512{rounded_up(d, 128) * 8 + 10, output, integers, integers};
  switch (backend) {
    case Backend::avx2:
      return {rounded_up(d, 64) * 8 + 10, output};
    case Backend::avx512:
      return avx512;
    case Backend::amx:
      return {std::max(3 * d + 12, avx512.score),
              std::max((1 << 16) + 130 * (keys / 128 + 2) + 9, avx512.output), integers, integers};
    default:
      return {};
  }
}

}  // namespace microscale::test
