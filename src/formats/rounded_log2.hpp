// floor and ceiling of log2(x) after it was rounded to FP32, as tools that write floor(log2f(x))
// get them. Next to a power of two the rounded logarithm is an integer that the exact one is not:
// ceil(log2f(2^100 * (1 + 10 * 2^-23))) is 100. An integer computation, so no library's log2f
// matters.
#pragma once

#include "formats/e8m0.hpp"

namespace microscale {
namespace detail {

constexpr int floor_log2(int value) {  // value >= 1
  int result = 0;
  while (value >>= 1) ++result;
  return result;
}

/// How many steps of `step` (a power of two, as its exponent) log2 may be off an integer whose FP32
/// neighbour is 2^(binade - 23) away and still round to it: half of that over log2(e).
constexpr std::uint32_t absorbed_steps(int binade, int step) {
  double steps = 0.69314718055994531;  // ln 2
  for (int i = binade - 24 - step; i > 0; --i) steps *= 2;
  for (int i = binade - 24 - step; i < 0; ++i) steps /= 2;
  return static_cast<std::uint32_t>(steps);
}

// x = 2^exponent * (1 + n * 2^-23) has rounded log2 equal to exponent for n up to this.
constexpr std::uint32_t absorbed_above(int exponent) {
  if (exponent == 0) return 0;
  if (exponent == -1) return 0;
  return absorbed_steps(floor_log2(exponent > 0 ? exponent : -exponent - 1), -23);
}

// x = 2^exponent * (1 - n * 2^-24) has rounded log2 equal to exponent for n up to this.
constexpr std::uint32_t absorbed_below(int exponent) {
  if (exponent == 0 || exponent == 1) return 0;
  return absorbed_steps(floor_log2(exponent > 0 ? exponent - 1 : -exponent), -24);
}

}  // namespace detail

/// floor(round_to_fp32(log2(x))); x positive and finite.
constexpr int floor_of_rounded_log2(float x) {
  const Magnitude m = split(x);
  return 0x800000u - m.fraction <= detail::absorbed_below(m.exponent + 1) ? m.exponent + 1
                                                                          : m.exponent;
}

/// ceil(round_to_fp32(log2(x))); x positive and finite.
constexpr int ceil_of_rounded_log2(float x) {
  const Magnitude m = split(x);
  return m.fraction <= detail::absorbed_above(m.exponent) ? m.exponent : m.exponent + 1;
}

}  // namespace microscale
