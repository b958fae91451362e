// The Hessian that quantizers work with: columns without input filled in, shrunk, damped.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>

namespace microscale {

/// A view; element by element, in FP64. docs/formats/accuracy.md has the formulas.
class SoundHessian {
 public:
  SoundHessian(std::span<const float> hessian, std::int64_t cols, double shrink, double damping)
      : hessian_(hessian.data()), cols_(cols), keep_(1 - shrink), damping_(damping) {
    double sum = 0;
    for (std::int64_t k = 0; k < cols; ++k) {
      sum += static_cast<double>(at(k, k));
      dead_ += is_dead(k);
    }
    mean_ = sum > 0 ? sum / static_cast<double>(cols - dead_) : 1;
  }

  /// Of the columns with input; 1 where none has any.
  double mean() const { return mean_; }
  std::int64_t dead() const { return dead_; }
  bool is_dead(std::int64_t k) const { return !(at(k, k) > 0); }

  /// Without damping.
  double energy(std::int64_t k) const { return is_dead(k) ? mean_ : static_cast<double>(at(k, k)); }

  double operator()(std::int64_t i, std::int64_t j) const {
    if (i == j) return energy(i) + damping_ * mean_;
    if (dead_ > 0 && (is_dead(i) || is_dead(j))) return 0;
    return keep_ * static_cast<double>(i < j ? at(i, j) : at(j, i));
  }

 private:
  float at(std::int64_t i, std::int64_t j) const { return hessian_[i * cols_ + j]; }

  const float* hessian_;
  std::int64_t cols_, dead_ = 0;
  double keep_, damping_, mean_ = 1;
};

}  // namespace microscale
