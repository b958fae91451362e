#include "checkpoint/source_sums.hpp"

#include <algorithm>
#include <cmath>

#include "formats/e8m0.hpp"
#include "formats/elements.hpp"
#include "microscale/quantize.hpp"

namespace microscale {
namespace {

// Two codes as near as FP32 can tell are both the nearest.
constexpr double tie = 1e-5;

template <class Codec>
bool is_nearest(std::uint8_t code, double value, double step) {
  const double best = std::abs(value - Codec::decode(Codec::encode(static_cast<float>(value / step),
                                                                   Rounding::nearest_even)) *
                                           step);
  return std::abs(value - Codec::decode(code) * step) <= best * (1 + tie) + step * tie;
}

// What an element's format is, as far as its errors go.
struct Grid {
  int mantissa_bits, least_exponent;  // of normal numbers
  double largest, octave;             // largest code; the power of two above it
};

Grid grid_of(Element element) {
  return element == Element::e4m3 ? Grid{3, -6, 448, 512} : Grid{1, 0, 6, 8};
}

// Half the distance of the codes around `value`, in steps.
double half_distance(const Grid& grid, double value) {
  int exponent = grid.least_exponent;
  if (value > 0) exponent = std::max(exponent, std::ilogb(value));
  return std::ldexp(0.5, exponent - grid.mantissa_bits);
}

// Values that a weight without blocks of ours is looked at together in.
constexpr std::int64_t run_of_values = 32;
// A run is lost if so much of its squares is, beyond what its format may cost, and what is there
// instead is next to nothing or far too much.
constexpr double lost_share = 0.5, excess = 2, nothing = 0.01, too_much = 4;

void add_run(std::span<const float> original, std::span<const float> stored, double allowed,
             std::int64_t first, SourceSums& sums) {
  double squares = 0, error = 0, largest = 0, decoded_squares = 0;
  for (std::size_t i = 0; i < original.size(); ++i) {
    const double value = original[i], decoded = stored[i];
    squares += value * value;
    error += (value - decoded) * (value - decoded);
    largest = std::max(largest, std::abs(value));
    sums.dot += value * decoded;
    decoded_squares += decoded * decoded;
    sums.differing += !(value == decoded);
  }
  sums.original += squares;
  sums.stored += decoded_squares;
  sums.error += error;
  sums.allowed += allowed;
  sums.largest = std::max(sums.largest, largest);
  if (!(squares > 0) || error <= std::max(excess * allowed, lost_share * squares)) return;
  if (decoded_squares > nothing * squares && decoded_squares < too_much * squares) return;
  if (sums.lost++ == 0) sums.first_lost = first;
  sums.lost_error += error;
  sums.largest_lost = std::max(sums.largest_lost, largest);
}

double root(double a, double b) { return a > 0 && b > 0 ? std::sqrt(a * b) : 0; }

}  // namespace

void SourceSums::add(const SourceSums& other) {
  if (first < 0) first = other.first;
  elements += other.elements;
  not_nearest += other.not_nearest;
  blocks += other.blocks;
  dot += other.dot;
  original += other.original;
  stored += other.stored;
  error += other.error;
  swapped += other.swapped;
  allowed += other.allowed;
  largest = std::max(largest, other.largest);
  if (first_lost < 0) first_lost = other.first_lost;
  lost += other.lost;
  lost_error += other.lost_error;
  largest_lost = std::max(largest_lost, other.largest_lost);
  differing += other.differing;
  for (const auto& [rule, count] : other.followed) followed[rule] += count;
}

double SourceSums::cosine() const {
  const double size = root(original, stored);
  return size > 0 ? dot / size : 0;
}

double SourceSums::swapped_cosine() const {
  const double size = root(original, stored);
  return size > 0 ? swapped / size : 0;
}

double allowed_squares(Format format, std::span<const float> block, float global_scale) {
  const FormatInfo& facts = info(format);
  const Grid grid = grid_of(facts.element);
  double amax = 0;
  for (const float value : block) amax = std::max(amax, std::abs(static_cast<double>(value)));
  if (!(amax > 0) || !std::isfinite(amax)) return 0;
  double step = 0, saturated = amax;
  if (facts.e8m0_scale) {
    step = std::max(2 * amax / grid.largest, 0x1p-127);
    saturated = amax * grid.largest / grid.octave;  // floor(log2) leaves so much
  } else {
    // amax / 4 of four over six, rounded up to E4M3; below its smallest number blocks are lost.
    constexpr double rounded_up = 1.0 + 1.0 / 16;
    step = amax / 4 * rounded_up;
    const double smallest = 0x1p-9 * static_cast<double>(global_scale);
    step = std::max(step, std::min(smallest, amax));
    if (amax <= grid.largest / 2 * smallest) {  // its scale may have been rounded to 0
      double sum = 0;
      for (const float value : block) sum += static_cast<double>(value) * value;
      return sum;
    }
  }
  double sum = 0;
  for (const float value : block) {
    const double size = std::abs(static_cast<double>(value));
    const double off = std::max(half_distance(grid, size / step) * step, size - saturated);
    sum += off * off;
  }
  return sum;
}

void add_values(const BlockCoding& coding, const PieceData& stored, std::span<const float> values,
                std::int64_t, std::int64_t first, SourceSums& sums) {
  const FormatInfo& format = info(coding.format);
  const auto block = static_cast<std::size_t>(format.block);
  sums.elements += static_cast<std::int64_t>(values.size());
  for (std::size_t at = 0; at < values.size(); at += block) {
    const auto original = values.subspan(at, std::min(block, values.size() - at));
    add_run(original, std::span(stored.values).subspan(at, original.size()),
            allowed_squares(coding.format, original, coding.multiplier),
            first + static_cast<std::int64_t>(at), sums);
  }
  for (std::size_t at = 0; at < values.size(); ++at) {
    const double value = values[at];
    if (format.code_bits == 4) sums.swapped += value * stored.values[at ^ 1];
    const std::uint8_t scale = stored.scales[at / block];
    const double step = format.e8m0_scale
                            ? static_cast<double>(decode_e8m0(scale))
                            : E4M3::decode(scale) * static_cast<double>(coding.multiplier);
    if (!(step > 0) || !std::isfinite(value)) continue;
    const std::uint8_t byte = stored.codes[format.code_bits == 4 ? at / 2 : at];
    const auto code = static_cast<std::uint8_t>(format.code_bits == 8 ? byte
                                                : at % 2              ? byte >> 4
                                                                      : byte & 15);
    const bool nearest = format.element == Element::e4m3 ? is_nearest<E4M3>(code, value, step)
                                                         : is_nearest<E2M1>(code, value, step);
    if (nearest) continue;
    if (sums.not_nearest++ == 0) sums.first = first + static_cast<std::int64_t>(at);
  }
}

void add_values(const PieceData& stored, std::span<const float> values, std::int64_t cols,
                std::int64_t first, SourceSums& sums) {
  const auto count = static_cast<std::int64_t>(values.size());
  sums.elements += count;
  for (std::int64_t at = 0; at < count;) {
    const std::int64_t col = (first + at) % cols;
    const std::int64_t run = std::min({run_of_values, cols - col, count - at});
    const auto place = static_cast<std::size_t>(at), length = static_cast<std::size_t>(run);
    add_run(values.subspan(place, length), std::span(stored.values).subspan(place, length), 0,
            first + at, sums);
    at += run;
  }
}

void try_rules(const BlockCoding& coding, const PieceData& stored, std::span<const float> values,
               SourceSums& sums) {
  const auto count = static_cast<std::int64_t>(values.size());
  sums.blocks = static_cast<std::int64_t>(stored.scales.size());
  for (const ScaleRule rule : scale_rules(coding.format)) {
    QuantizeOptions options;
    options.input = {values.data(), DType::f32, 1, count, count};
    options.format = coding.format;
    options.numerics.scale_rule = rule;
    if (!info(coding.format).e8m0_scale) options.global_scale = GlobalScale(coding.multiplier);
    const BlockTensor made = quantize(options, {.threads = 1});
    const auto scales = made.scales();
    for (std::size_t i = 0; i < scales.size(); ++i) {
      sums.followed[rule] += scales[i] == stored.scales[i];
    }
  }
}

}  // namespace microscale
