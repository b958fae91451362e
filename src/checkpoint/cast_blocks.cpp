#include "checkpoint/cast_blocks.hpp"

#include <algorithm>
#include <array>
#include <climits>
#include <cmath>
#include <cstring>
#include <optional>

#include "core/result.hpp"
#include "formats/e8m0.hpp"
#include "formats/elements.hpp"
#include "microscale/quantize.hpp"

namespace microscale {
namespace {

constexpr std::uint64_t signs = 0x8888888888888888;
constexpr int e8m0_bias = 127;
constexpr int largest = 8, smallest = -9;  // exponents of E4M3's powers of two
constexpr std::int64_t block = 16;

std::uint64_t load(const std::uint8_t* bytes) {
  std::uint64_t word;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

bool holds_a_value(std::uint64_t codes) { return (codes & ~signs) != 0; }

// E4M3 of 2^exponent, within smallest to largest.
std::uint8_t e4m3_power(int exponent) {
  constexpr int least_normal = -6, bias = 7;
  return static_cast<std::uint8_t>(exponent >= least_normal ? (exponent + bias) << 3
                                                            : 1 << (exponent - smallest));
}

// Sixteen codes times 2^shift (1 or -1), if E2M1 has all of them.
std::optional<std::uint64_t> shifted(std::uint64_t codes, int shift) {
  constexpr std::uint8_t none = 8;
  // Of 0, 0.5, 1, 1.5, 2, 3, 4, 6. Static, and chosen by a pointer: of two arrays on the stack g++
  // 12 takes the wrong elements where it instruments accesses.
  static constexpr std::uint8_t doubled[8] = {0, 2, 4, 5, 6, 7, none, none};
  static constexpr std::uint8_t halved[8] = {0, none, 1, none, 2, 3, 4, 5};
  const std::uint8_t* const table = shift > 0 ? doubled : halved;
  std::uint64_t result = codes & signs;
  for (int at = 0; at < 64; at += 4) {
    const std::uint8_t code = table[codes >> at & 7];
    if (code == none) return std::nullopt;
    result |= static_cast<std::uint64_t>(code) << at;
  }
  return result;
}

// The codes under a scale that E4M3 has; false where there is none.
bool fit(std::uint64_t& codes, int& exponent) {
  while (exponent > largest || exponent < smallest) {
    const int shift = exponent > largest ? 1 : -1;
    const auto moved = shifted(codes, shift);
    if (!moved) return false;
    codes = *moved;
    exponent -= shift;
  }
  return true;
}

void search(std::uint8_t* codes, float step, float global_scale, std::uint8_t& scale,
            ErrorSums& error) {
  std::array<float, block> values, restored;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto code = static_cast<std::uint8_t>(codes[i / 2] >> (i % 2 * 4) & 15);
    values[i] = E2M1::decode(code) * step;
  }
  QuantizeOptions options;
  options.input = {values.data(), DType::f32, 1, block, block};
  options.format = Format::nvfp4;
  options.numerics.scale_rule = ScaleRule::search;
  options.tensor_amax = 2688.0f * global_scale;
  quantize_into(options, {codes, block / 2}, {&scale, 1}, {.threads = 1});
  const float found = E4M3::decode(scale) * global_scale;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto code = static_cast<std::uint8_t>(codes[i / 2] >> (i % 2 * 4) & 15);
    restored[i] = E2M1::decode(code) * found;
  }
  error.add(values, restored);
}

}  // namespace

int largest_exponent(std::span<const std::uint8_t> codes, std::span<const std::uint8_t> scales) {
  int most = INT_MIN;
  for (std::size_t i = 0; i < scales.size(); ++i) {
    const int exponent = scales[i] - e8m0_bias;
    if (exponent <= most) continue;
    const std::uint8_t* at = codes.data() + i * 16;
    if (holds_a_value(load(at) | load(at + 8))) most = exponent;
  }
  return most;
}

float amax_for_exponent(int exponent) {
  // Both the global scale and the largest magnitude stay normal numbers.
  return std::ldexp(2688.0f, std::clamp(exponent - largest, -110, 115));
}

CastBlocks cast_to_nvfp4(std::span<std::uint8_t> codes, std::span<const std::uint8_t> scales,
                         float global_scale, std::span<std::uint8_t> to) {
  const int global = std::ilogb(global_scale);
  CastBlocks cast;
  cast.blocks = static_cast<std::int64_t>(to.size());
  std::array<std::uint8_t, 256> powers{};  // of E4M3 by scale; 0: it has none
  for (int scale = 0; scale < 256; ++scale) {
    const int exponent = scale - e8m0_bias - global;
    if (exponent >= smallest && exponent <= largest) {
      powers[static_cast<std::size_t>(scale)] = e4m3_power(exponent);
    }
  }
  constexpr std::size_t chunk = 128;  // blocks of sixteen whose scales are looked up without a jump
  for (std::size_t from = 0; from < to.size(); from += chunk) {
    const std::size_t end = std::min(from + chunk, to.size());
    std::uint8_t least = 0xFF;
    for (std::size_t i = from; i < end; i += 2) {
      const std::uint8_t power = powers[scales[i / 2]];
      to[i] = to[i + 1] = power;
      least = std::min(least, power);
    }
    for (std::size_t i = from; least == 0 && i < end; ++i) {
      if (to[i] != 0) continue;
      std::uint8_t* at = codes.data() + i * block / 2;
      std::uint64_t word = load(at);
      int exponent = scales[i / 2] - e8m0_bias - global;
      if (!holds_a_value(word)) {
        to[i] = e4m3_power(std::clamp(exponent, smallest, largest));
      } else if (fit(word, exponent)) {
        to[i] = e4m3_power(exponent);
        std::memcpy(at, &word, sizeof word);
      } else {
        ++cast.searched;
        search(at, decode_e8m0(scales[i / 2]), global_scale, to[i], cast.error);
      }
    }
  }
  return cast;
}

}  // namespace microscale
