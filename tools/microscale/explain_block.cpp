// The steps of one block, from the library: bytes by quantize(), what led to them by the codecs and
// rules that quantize() is made of.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "explain.hpp"
#include "formats/block_quantizer.hpp"
#include "formats/compat.hpp"
#include "microscale/quantize.hpp"

namespace microscale {
namespace {

using Values = std::array<float, 32>;  // zero-filled

template <class Codec>
ExponentSteps exponent_steps(ScaleRule rule, float amax) {
  ExponentSteps steps;
  steps.magnitude = split(amax);
  // The carry depends on the fraction alone: ask at an exponent where nothing is clamped.
  const float fraction =
      std::bit_cast<float>(std::bit_cast<std::uint32_t>(1.0f) | steps.magnitude.fraction);
  const bool bare = rule == ScaleRule::amax_ceil || rule == ScaleRule::amax_floor;
  const ScaleRule without_carry = bare ? ScaleRule::amax_floor : ScaleRule::floor;
  steps.carry =
      e8m0_from_amax<Codec>(rule, fraction) - e8m0_from_amax<Codec>(without_carry, fraction);
  steps.emax = bare ? 0 : Codec::emax;
  steps.largest_fraction = split(Codec::max_value).fraction;
  if (rule == ScaleRule::even || rule == ScaleRule::even_down)
    steps.addend = (1u << (22 - Codec::mantissa_bits)) - (rule == ScaleRule::even_down);
  if (rule == ScaleRule::even_1bit) steps.addend = 1u << 21;
  steps.byte = steps.magnitude.exponent + steps.carry - steps.emax + 127;
  return steps;
}

template <class Codec>
std::vector<ScaleCandidate> mx_candidates(const Values& values, const ExponentSteps& steps) {
  std::vector<ScaleCandidate> candidates;
  const int lower = std::clamp(steps.byte, 0, static_cast<int>(e8m0_max));
  for (int code = lower; code <= lower + 1 && code <= e8m0_max; ++code) {
    const auto byte = static_cast<std::uint8_t>(code);
    const double scale = decode_e8m0(byte);
    const float sum = block_error<Codec, 32>(values.data(), nullptr, inverse_e8m0(byte), false);
    candidates.push_back({byte, scale, sum * scale * scale, false});
  }
  return candidates;
}

std::vector<ScaleCandidate> nvfp4_candidates(const Values& values, const GlobalScaleSteps& global,
                                             float amax, ScaleRule rule) {
  const auto candidate = [&](int code) {
    const auto byte = static_cast<std::uint8_t>(code);
    const bool absolute = rule == ScaleRule::four_over_six_mae;
    const double step = static_cast<double>(UE4M3::decode(byte)) * global.value;
    const float sum = block_error<E2M1, 16>(values.data(), nullptr,
                                            nvfp4_multiplier(byte, global.value), absolute);
    return ScaleCandidate{byte, UE4M3::decode(byte), absolute ? sum * step : sum * step * step,
                          false};
  };
  std::vector<ScaleCandidate> candidates;
  const int nearest = global.nearest;
  int first = 1, last = nvfp4_max_scale;
  switch (rule) {
    case ScaleRule::four_over_six:
    case ScaleRule::four_over_six_mae: {
      const int four = UE4M3::encode((amax * global.factor) * 1.5f, Rounding::nearest_even);
      if (four == nearest) return {candidate(nearest)};  // both saturate
      return {candidate(nearest), candidate(four)};
    }
    case ScaleRule::search:
      first = std::max(first, nearest - nvfp4_window_below);
      last = std::min(last, nearest + nvfp4_window_above);
      break;
    case ScaleRule::full:
      break;
    default:
      return {};
  }
  for (int code = first; code <= last; ++code) candidates.push_back(candidate(code));
  return candidates;
}

const char* tie_note(Rounding rounding) {
  switch (rounding) {
    case Rounding::nearest_away:
      return "tie: away from 0";
    case Rounding::nearest_toward_zero:
      return "tie: toward 0";
    default:
      return "tie: to even";
  }
}

template <class Codec>
std::string note_of(const ElementSteps& e, const Numerics& numerics, int index) {
  const float magnitude = std::fabs(e.scaled);
  const float decoded = std::fabs(Codec::decode(e.code));
  const std::uint32_t random = random16(numerics.seed, static_cast<std::uint64_t>(index));
  std::uint8_t own = Codec::encode(e.scaled, numerics.rounding, random);
  if (numerics.zero_code == ZeroCode::positive && own == Codec::sign_bit) own = 0;
  if (std::isnan(e.value)) return "NaN";
  if (own != e.code) return fmt::format("as {} does it", to_string(numerics.compat));
  if (magnitude > Codec::max_value) return "saturates";
  if (numerics.rounding == Rounding::stochastic && e.below != e.above)
    return fmt::format("r {:.3f}", random / 65536.0);
  if (numerics.rounding == Rounding::toward_zero && e.below != e.above)
    return decoded == 0 ? "cut to 0" : "cut";
  if (magnitude == e.midpoint) return tie_note(numerics.rounding);
  if (decoded == 0 && e.value != 0) return "becomes 0";
  return "";
}

template <class Codec>
ElementSteps element_steps(float value, int index, std::uint8_t code, const BlockSteps& block) {
  ElementSteps e;
  e.value = value;
  e.scaled = value * block.multiplier;
  e.code = code;
  e.bits = code_bits(block.format.element, code);
  e.restored = Codec::decode(code) * block.step;
  e.midpoint = std::numeric_limits<float>::quiet_NaN();
  const float magnitude = std::fabs(e.scaled);
  int below = 0;
  while (below < Codec::max_code &&
         Codec::decode(static_cast<std::uint8_t>(below + 1)) <= magnitude)
    ++below;
  e.below_code = static_cast<std::uint8_t>(below);
  e.below = Codec::decode(e.below_code);
  const bool between = below < Codec::max_code && magnitude > e.below;
  e.above_code = static_cast<std::uint8_t>(below + between);
  e.above = Codec::decode(e.above_code);
  if (between) e.midpoint = 0.5f * (e.below + e.above);
  if (!block.nan_block) e.note = note_of<Codec>(e, block.numerics, index);
  return e;
}

template <class Codec>
void fill(BlockSteps& block, const Values& values, const BlockTensor& tensor) {
  const Numerics& numerics = block.numerics;
  const bool e8m0 = block.format.e8m0_scale;
  if (e8m0) {
    if (block.amax > 0 && !block.infinite)
      block.exponent = exponent_steps<Codec>(numerics.scale_rule, block.amax);
    if (numerics.scale_rule == ScaleRule::search && block.exponent)
      block.candidates = mx_candidates<Codec>(values, *block.exponent);
    block.scale = decode_e8m0(block.scale_code);
    block.multiplier = block.nan_block ? block.scale : inverse_e8m0(block.scale_code);
    block.step = block.scale;
  } else {
    GlobalScaleSteps& global = *block.global;
    global.factor = nvfp4_scale_factor(global.value);
    global.quotient = block.amax * global.factor;
    global.nearest = nvfp4_nearest_scale(block.amax, global.factor);
    if (block.amax > 0 && !block.infinite)
      block.candidates = nvfp4_candidates(values, global, block.amax, numerics.scale_rule);
    block.scale = UE4M3::decode(block.scale_code);
    block.multiplier =
        block.nan_block ? block.scale : nvfp4_multiplier(block.scale_code, global.value);
    block.step = nvfp4_step(block.scale_code, global.value);
  }
  for (ScaleCandidate& candidate : block.candidates)
    candidate.chosen = candidate.code == block.scale_code;
  block.code_width = std::bit_width(static_cast<unsigned>(Codec::code_count - 1));
  const int exponent_bits = block.code_width - 1 - Codec::mantissa_bits;
  block.fields = Codec::sign_bit == 0
                     ? "two's complement"
                     : "S " + std::string(static_cast<std::size_t>(exponent_bits), 'E') + " " +
                           std::string(Codec::mantissa_bits, 'M');
  std::vector<float> restored;
  for (int i = 0; i < block.given; ++i) {
    const std::uint8_t byte =
        tensor.codes()[static_cast<std::size_t>(i * block.format.code_bits / 8)];
    const std::uint8_t code = block.format.code_bits == 8 ? byte : (byte >> (i % 2 * 4)) & 15;
    block.elements.push_back(
        element_steps<Codec>(values[static_cast<std::size_t>(i)], i, code, block));
    restored.push_back(block.elements.back().restored);
  }
  block.error = error_run(std::span(values).first(static_cast<std::size_t>(block.given)), restored);
}

}  // namespace

std::string code_bits(Element element, std::uint8_t code) {
  return with_codec(element, [&](auto codec) {
    using Codec = decltype(codec);
    const int total = std::bit_width(static_cast<unsigned>(Codec::code_count - 1));
    std::string bits = fmt::format("{:0{}b}", code, total);
    if (Codec::sign_bit == 0) return bits;
    if (Codec::mantissa_bits > 0) bits.insert(bits.size() - Codec::mantissa_bits, " ");
    return bits.insert(1, " ");
  });
}

std::string scale_bits(const FormatInfo& format, std::uint8_t code) {
  return format.e8m0_scale ? fmt::format("{:08b}", code) : code_bits(Element::e4m3, code);
}

BlockSteps block_steps(const ExplainCommand& command) {
  BlockSteps block;
  block.format = info(command.format);
  block.numerics = command.numerics;
  block.given = static_cast<int>(command.values.size());
  Values values{};
  std::copy(command.values.begin(), command.values.end(), values.begin());
  const TensorView input{values.data(), DType::f32, 1, block.format.block, block.format.block};
  const GlobalScale global_scale =
      command.global_scale ? GlobalScale(*command.global_scale) : GlobalScale();
  const BlockTensor tensor = quantize({.input = input,
                                       .format = command.format,
                                       .numerics = command.numerics,
                                       .axis = BlockAxis::cols,
                                       .layout = Layout::row_major,
                                       .padding = Padding::refuse,
                                       .non_finite = NonFinite::encode,
                                       .global_scale = global_scale,
                                       .weights = {}},
                                      {.backend = Backend::reference, .threads = 1});
  block.scale_code = tensor.scales()[0];
  block.bytes.assign(tensor.codes().begin(), tensor.codes().end());
  const BlockRange range = block_range<32>(values.data());
  block.amax = range.amax;
  for (int i = block.given - 1; i >= 0; --i)
    if (std::fabs(values[static_cast<std::size_t>(i)]) == range.amax && range.amax > 0)
      block.amax_index = i;
  block.infinite = std::isinf(range.amax);
  block.nan_block = block.scale_code == (block.format.e8m0_scale ? e8m0_nan : nvfp4_nan_scale);
  if (!block.format.e8m0_scale)
    block.global =
        GlobalScaleSteps{.value = tensor.global_scale, .given = command.global_scale.has_value()};
  with_codec(block.format.element,
             [&](auto codec) { fill<decltype(codec)>(block, values, tensor); });
  return block;
}

}  // namespace microscale
