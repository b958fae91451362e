// Every E8M0 scale rule as three numbers, so that one kernel serves them all: an addition that
// carries into the exponent where the rule rounds up, the exponent of the element's largest value,
// and the byte of zero.
#pragma once

#include <bit>
#include <cstdint>

#include "microscale/numerics.hpp"

namespace microscale::cuda {

struct E8m0Rule {
  std::int32_t addend;     // in units of the last bit of an FP32
  std::int32_t emax;       // 0 for the rules that subtract none
  std::int32_t zero_byte;  // of an all-zero block
};

/// `rule` for an element type; `search` is its lower candidate, as in e8m0_from_amax. Codec::emax >
/// 0.
template <class Codec>
constexpr E8m0Rule e8m0_rule(ScaleRule rule) {
  constexpr std::int32_t largest_fraction =
      static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(Codec::max_value) & 0x7FFFFFu);
  switch (rule) {
    case ScaleRule::ceil:
      return {0x7FFFFF, Codec::emax, 0};
    case ScaleRule::rceil:
      return {0x7FFFFF - largest_fraction, Codec::emax, 0};
    case ScaleRule::even:
      return {1 << (22 - Codec::mantissa_bits), Codec::emax, 0};
    case ScaleRule::even_down:
      return {(1 << (22 - Codec::mantissa_bits)) - 1, Codec::emax, 0};
    case ScaleRule::even_1bit:
      return {1 << 21, Codec::emax, 0};
    case ScaleRule::amax_ceil:
      return {0x7FFFFF, 0, 127};
    case ScaleRule::amax_floor:
      return {0, 0, 0};
    default:
      return {0, Codec::emax, 0};  // floor, search
  }
}

}  // namespace microscale::cuda
