#include "checkpoint/rescale.hpp"

#include <algorithm>
#include <cmath>

#include "formats/elements.hpp"

namespace microscale {
namespace {

constexpr std::size_t block = 16, block_bytes = 8;
constexpr int around = 4;  // scales on each side of the nearest that are tried

std::uint8_t code_at(std::span<const std::uint8_t> codes, std::size_t i) {
  return static_cast<std::uint8_t>(i % 2 ? codes[i / 2] >> 4 : codes[i / 2] & 15);
}

// A block's codes for a scale, and how far they are from what is wanted.
struct Candidate {
  std::uint8_t scale = 0;
  std::array<std::uint8_t, block> codes{};
  double squared_error = 0;
};

Candidate try_scale(std::uint8_t scale, const std::array<double, block>& wanted) {
  Candidate candidate;
  candidate.scale = scale;
  const double step = E4M3::decode(scale);
  for (std::size_t i = 0; i < block; ++i) {
    const double quotient = step > 0 ? wanted[i] / step : 0;
    candidate.codes[i] = E2M1::encode(static_cast<float>(quotient), Rounding::nearest_even);
    const double error = wanted[i] - E2M1::decode(candidate.codes[i]) * step;
    candidate.squared_error += error * error;
  }
  return candidate;
}

// The best of the scales around the exact one, which E4M3 has not.
Candidate best_candidate(double exact, const std::array<double, block>& wanted) {
  const int nearest = E4M3::encode(static_cast<float>(exact), Rounding::nearest_even);
  Candidate best = try_scale(static_cast<std::uint8_t>(nearest), wanted);
  for (int scale = std::max(0, nearest - around);
       scale <= std::min<int>(E4M3::max_code, nearest + around); ++scale) {
    const Candidate candidate = try_scale(static_cast<std::uint8_t>(scale), wanted);
    if (candidate.squared_error < best.squared_error) best = candidate;
  }
  return best;
}

void rescale_inexact(std::span<std::uint8_t> codes, std::uint8_t& scale, double ratio,
                     RescaleCounts& counts) {
  const double step = E4M3::decode(scale) * ratio;
  std::array<double, block> wanted;
  for (std::size_t i = 0; i < block; ++i) wanted[i] = E2M1::decode(code_at(codes, i)) * step;
  const Candidate best = best_candidate(step, wanted);
  for (std::size_t i = 0; i < block; ++i) {
    // 0 and -0 are the same value.
    const std::uint8_t old = code_at(codes, i);
    const std::uint8_t now = (best.codes[i] & 7) == 0 && (old & 7) == 0 ? old : best.codes[i];
    if (now == old) continue;
    ++counts.codes_changed;
    std::uint8_t& byte = codes[i / 2];
    byte = static_cast<std::uint8_t>(i % 2 ? (byte & 0x0F) | now << 4 : (byte & 0xF0) | now);
  }
  counts.blocks_inexact += best.squared_error > 0;
  counts.squared_change += best.squared_error / (ratio * ratio);
  counts.scales_changed += best.scale != scale;
  scale = best.scale;
}

}  // namespace

void RescaleCounts::add(const RescaleCounts& other) {
  blocks += other.blocks;
  scales_changed += other.scales_changed;
  codes_changed += other.codes_changed;
  blocks_inexact += other.blocks_inexact;
  squared_change += other.squared_change;
  squared_before += other.squared_before;
}

int exact_scale(std::uint8_t scale, double ratio) {
  if (scale == 0) return 0;
  const double wanted = E4M3::decode(scale) * ratio;
  const std::uint8_t code = E4M3::encode(static_cast<float>(wanted), Rounding::nearest_even);
  return E4M3::decode(code) == wanted ? code : -1;
}

std::uint64_t inexact_blocks(const CodeHistogram& scales, double ratio) {
  std::uint64_t count = 0;
  for (std::size_t scale = 0; scale <= E4M3::max_code; ++scale) {
    if (exact_scale(static_cast<std::uint8_t>(scale), ratio) < 0) count += scales[scale];
  }
  return count;
}

RescaleCounts rescale_blocks(std::span<std::uint8_t> codes, std::span<std::uint8_t> scales,
                             double ratio) {
  RescaleCounts counts;
  counts.blocks = static_cast<std::int64_t>(scales.size());
  for (std::size_t i = 0; i < scales.size(); ++i) {
    const auto own = codes.subspan(i * block_bytes, block_bytes);
    const double step = E4M3::decode(scales[i]);
    for (std::size_t j = 0; j < block; ++j) {
      const double value = E2M1::decode(code_at(own, j)) * step;
      counts.squared_before += value * value;
    }
    const int exact = exact_scale(scales[i], ratio);
    if (exact < 0) {
      rescale_inexact(own, scales[i], ratio, counts);
    } else {
      counts.scales_changed += exact != scales[i];
      scales[i] = static_cast<std::uint8_t>(exact);
    }
  }
  return counts;
}

}  // namespace microscale
