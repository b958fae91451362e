#include "reference/attention_numerics.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "formats/block_quantizer.hpp"

namespace microscale {
namespace {

template <class Codec, int Count, bool E8M0Scale>
void block_terms(const float* values, int terms, double* sum) {
  BlockContext context;
  context.scale_factor = nvfp4_scale_factor(context.global_scale);
  context.numerics.scale_rule = E8M0Scale ? ScaleRule::rceil : ScaleRule::nearest;
  std::array<float, Count> rest;
  std::copy(values, values + Count, rest.begin());
  std::fill(sum, sum + Count, 0.0);
  for (int term = 0; term < terms; ++term) {
    std::array<std::uint8_t, Count> codes;
    const std::uint8_t scale = quantize_block<Codec, Count, E8M0Scale>(
        rest.data(), nullptr, context, [](int) { return std::uint64_t{0}; }, codes.data());
    const float step = E8M0Scale ? decode_e8m0(scale) : UE4M3::decode(scale);
    for (std::size_t i = 0; i < Count; ++i) {
      const float value = Codec::decode(codes[i]) * step;
      sum[i] += value;
      rest[i] -= value;
    }
  }
}

/// `sum`: the block in `terms` terms of `format`, scales by ScaleRule::nearest or rceil.
void block_in_terms(Format format, const float* values, int terms, double* sum) {
  if (format == Format::nvfp4) return block_terms<E2M1, 16, false>(values, terms, sum);
  if (format == Format::mxfp4) return block_terms<E2M1, 32, true>(values, terms, sum);
  block_terms<E4M3, 32, true>(values, 1, sum);
}

/// The power of two that brings `largest` into [2^10, 2^11) when divided by it; 1 where there is
/// none.
double row_factor(float largest) {
  if (!(largest > 0) || std::isinf(largest)) return 1;
  return std::ldexp(1.0, std::ilogb(largest) - 10);
}

}  // namespace

void round_query(Format format, bool two_term, double* row, std::int64_t d) {
  const int terms = two_term ? 2 : 1, block = info(format).block;
  float largest = 0;
  for (std::int64_t i = 0; i < d; ++i)
    largest = std::fmax(largest, std::fabs(static_cast<float>(row[i])));
  const double r = format == Format::nvfp4 ? row_factor(largest) : 1;
  for (std::int64_t first = 0; first < d; first += block) {
    std::array<float, 32> values{};
    for (int i = 0; i < block; ++i)
      values[static_cast<std::size_t>(i)] = static_cast<float>(row[first + i] / r);
    block_in_terms(format, values.data(), terms, row + first);
    for (int i = 0; i < block; ++i) row[first + i] *= r;
  }
}

void round_probabilities(ProbabilityRule rule, Format format, bool two_term, std::int64_t first,
                         double* p, std::int64_t count) {
  if (rule == ProbabilityRule::fp8) {
    constexpr double factor = 448;
    for (std::int64_t j = 0; j < count; ++j)
      p[j] = E4M3::decode(E4M3::encode(static_cast<float>(p[j] * factor), Rounding::nearest_even)) /
             factor;
    return;
  }
  if (rule != ProbabilityRule::two_level) return;
  const double factor = format == Format::nvfp4 ? 448 * 6 : 1;
  const std::int64_t block = info(format).block, end = first + count;
  for (std::int64_t start = first / block * block; start < end; start += block) {
    const std::int64_t begin = std::max(start, first), stop = std::min(start + block, end);
    std::array<float, 32> values{};
    std::array<double, 32> sum;
    for (std::int64_t j = begin; j < stop; ++j)
      values[static_cast<std::size_t>(j - start)] = static_cast<float>(p[j - first] * factor);
    block_in_terms(format, values.data(), two_term ? 2 : 1, sum.data());
    for (std::int64_t j = begin; j < stop; ++j)
      p[j - first] = sum[static_cast<std::size_t>(j - start)] / factor;
  }
}

}  // namespace microscale
