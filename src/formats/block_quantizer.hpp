// One block, dense to codes and scale: the definition that every kernel must equal bit for bit.
#pragma once

#include <bit>
#include <cstdint>

#include "formats/host_device.hpp"
#include "formats/arithmetic.hpp"
#include "formats/e8m0.hpp"
#include "formats/elements.hpp"
#include "formats/nvfp4.hpp"
#include "formats/random.hpp"
#include "microscale/numerics.hpp"

namespace microscale {

/// What is the same for all blocks of a call.
struct BlockContext {
  Numerics numerics;
  float global_scale = 1.0f;  // NVFP4
  float scale_factor = 0.0f;  // nvfp4_scale_factor(global_scale)
};

/// Largest magnitude of a block and what is not finite in it. NaN never counts for amax.
struct BlockRange {
  float amax = 0.0f;  // infinity if there is one
  bool has_nan = false;
};

template <int Count>
MICROSCALE_HD constexpr BlockRange block_range(const float* values) {
  std::uint32_t largest = 0;
  bool has_nan = false;
  for (int i = 0; i < Count; ++i) {
    const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(values[i]) & 0x7FFFFFFFu;
    if (magnitude > 0x7F800000u)
      has_nan = true;
    else if (magnitude > largest)
      largest = magnitude;
  }
  return {std::bit_cast<float>(largest), has_nan};
}

/// Sum of squared (or absolute) rounding errors of values * multiplier, in units of the scaled
/// values, rounded to nearest even whatever the rounding of the call. Weights may be null (all 1).
template <class Codec, int Count>
MICROSCALE_HD constexpr float block_error(const float* values, const float* weights,
                                          float multiplier, bool absolute) {
  return block_sum<Count>([&](float sum, int i) {
    const float scaled = values[i] * multiplier;
    const float error = scaled - Codec::decode(Codec::encode(scaled, Rounding::nearest_even));
    if (absolute) {
      const float magnitude = error < 0 ? -error : error;
      return weights ? fused_multiply_add(weights[i], magnitude, sum) : sum + magnitude;
    }
    return fused_multiply_add(weights ? weights[i] * error : error, error, sum);
  });
}

/// The E8M0 byte of a block whose range is finite. The search keeps the lower byte unless the next
/// one has the smaller error (errors in units of the lower scale squared).
template <class Codec>
MICROSCALE_HD constexpr std::uint8_t choose_e8m0(const float* values, const float* weights,
                                                 float amax, ScaleRule rule) {
  const std::uint8_t byte = e8m0_from_amax<Codec>(rule, amax);
  if (rule != ScaleRule::search || byte == e8m0_max || amax == 0) return byte;
  const float lower = block_error<Codec, 32>(values, weights, inverse_e8m0(byte), false);
  const float upper = block_error<Codec, 32>(values, weights, inverse_e8m0(byte + 1), false) * 4.0f;
  return upper < lower ? byte + 1 : byte;
}

/// The E4M3 scale code of a block whose range is finite. Searches try codes in ascending order and
/// keep the first of equal errors (error sum times scale squared); 4-over-6 keeps 6 on a tie. A
/// block that is not all zero gets a scale above 0 from a search; `nearest` may underflow to 0.
MICROSCALE_HD constexpr std::uint8_t choose_nvfp4_scale(const float* values, const float* weights,
                                                        float amax, const BlockContext& context) {
  if (amax == 0) return 0;
  const float g = context.global_scale;
  const std::uint8_t nearest = nvfp4_nearest_scale(amax, context.scale_factor);
  const auto error = [&](std::uint8_t code, bool absolute) {
    const float scale = UE4M3::decode(code);
    const float sum = block_error<E2M1, 16>(values, weights, nvfp4_multiplier(code, g), absolute);
    return absolute ? sum * scale : sum * (scale * scale);
  };
  int first = 1, last = nvfp4_max_scale;
  switch (context.numerics.scale_rule) {
    case ScaleRule::four_over_six:
    case ScaleRule::four_over_six_mae: {
      const bool absolute = context.numerics.scale_rule == ScaleRule::four_over_six_mae;
      const std::uint8_t four =
          UE4M3::encode((amax * context.scale_factor) * 1.5f, Rounding::nearest_even);
      return error(four, absolute) < error(nearest, absolute) ? four : nearest;
    }
    case ScaleRule::search:
      first = nearest - nvfp4_window_below > 1 ? nearest - nvfp4_window_below : 1;
      last = nearest + nvfp4_window_above < last ? nearest + nvfp4_window_above : last;
      break;
    case ScaleRule::full:
      break;
    default:
      return nearest;
  }
  int best = first;
  float least = error(static_cast<std::uint8_t>(first), false);
  for (int code = first + 1; code <= last; ++code) {
    const float candidate = error(static_cast<std::uint8_t>(code), false);
    if (candidate < least) {
      least = candidate;
      best = code;
    }
  }
  return static_cast<std::uint8_t>(best);
}

/// Encodes one block of Count elements. `codes` takes one code per byte. `index(i)` is element i's
/// position for stochastic rounding. Returns the scale byte.
template <class Codec, int Count, bool E8M0Scale, class Index>
MICROSCALE_HD constexpr std::uint8_t quantize_block(const float* values, const float* weights,
                                                    const BlockContext& context, Index&& index,
                                                    std::uint8_t* codes) {
  const Numerics& n = context.numerics;
  const BlockRange range = block_range<Count>(values);
  const bool infinite = std::bit_cast<std::uint32_t>(range.amax) == 0x7F800000u;
  if ((range.has_nan && n.nan == NanPolicy::propagate) ||
      (infinite && n.inf == InfPolicy::nan_block)) {
    for (int i = 0; i < Count; ++i) codes[i] = Codec::nan_code;
    return E8M0Scale ? e8m0_nan : nvfp4_nan_scale;
  }
  std::uint8_t scale;
  float multiplier;
  if constexpr (E8M0Scale) {
    scale = infinite ? e8m0_max : choose_e8m0<Codec>(values, weights, range.amax, n.scale_rule);
    multiplier = inverse_e8m0(scale);
  } else {
    scale = infinite ? nvfp4_max_scale : choose_nvfp4_scale(values, weights, range.amax, context);
    multiplier = nvfp4_multiplier(scale, context.global_scale);
  }
  for (int i = 0; i < Count; ++i) {
    const std::uint32_t random =
        n.rounding == Rounding::stochastic ? random16(n.seed, index(i)) : 0u;
    std::uint8_t code = Codec::encode(values[i] * multiplier, n.rounding, random);
    if (n.zero_code == ZeroCode::positive && code == Codec::sign_bit) code = 0;
    codes[i] = code;
  }
  return scale;
}

}  // namespace microscale
