// What quantizing cost: sums over (original, restored) pairs, and the figures people compare.
#pragma once

#include <cstdint>
#include <span>

namespace microscale {

/// Elements of one run. Sums are taken per run and the runs added in order, so a tensor has one
/// result however it was cut for threads or memory, as long as every cut is at a multiple of this
/// many elements.
inline constexpr std::int64_t error_run_elements = 4096;

/// Sums over one run or, merged in order, over a tensor or a model. All values are taken to be
/// finite: one NaN or infinity makes the figures derived from it NaN.
struct ErrorSums {
  double squared_error = 0;     ///< sum of (original - restored)^2
  double squared_original = 0;  ///< sum of original^2
  double squared_restored = 0;  ///< sum of restored^2
  double dot = 0;               ///< sum of original * restored
  double max_error = 0;         ///< largest |original - restored|
  std::uint64_t elements = 0;
  std::uint64_t clipped = 0;  ///< |original| above what the block's largest code stands for
  std::uint64_t flushed = 0;  ///< original is not zero, restored is

  /// Adds the runs that follow these. The order of merging is part of the result's last bits.
  void merge(const ErrorSums& next);

  /// Appends elements that follow these, one run after the other; the last may be short. `clipped`
  /// is how many of them the quantizer clipped (the values alone do not tell). Equal lengths
  /// required.
  void add(std::span<const float> original, std::span<const float> restored,
           std::uint64_t clipped = 0);

  /// squared_error / squared_original. No error at all is 0 whatever the original; an error on an
  /// all-zero original is infinite.
  double relative_mse() const;
  /// 10 log10(1 / relative_mse): infinite where there is no error.
  double sqnr_db() const;
  /// Of the angle between the two as vectors: 1 if both are all zero, 0 if one is.
  double cosine() const;
  double root_mean_square_error() const;
  double clipped_share() const;  ///< of all elements, 0 to 1; 0 if there are none
  double flushed_share() const;

  bool operator==(const ErrorSums&) const = default;
};

/// Sums over elements w of a weight, in column k with the mean square m_k of its input, restored as
/// q: the error of a layer's output, as far as mean squares tell, and the output itself.
struct WeightedSums {
  double error = 0;     ///< m_k (w - q)^2
  double original = 0;  ///< m_k w^2

  /// Adds those of elements that follow. The order of merging is part of the last bits.
  void merge(const WeightedSums& next);
  /// error / original; no error at all is 0 whatever the original, an error of nothing 1.
  double share() const;
  bool operator==(const WeightedSums&) const = default;
};

/// The sums of one run of any length: eight partial sums in double, element i in partial i mod 8,
/// combined as ((0+4)+(2+6))+((1+5)+(3+7)). So no compiler flag or vector width changes a bit.
ErrorSums error_run(std::span<const float> original, std::span<const float> restored);

}  // namespace microscale
