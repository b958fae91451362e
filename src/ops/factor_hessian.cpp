#include "ops/factor_hessian.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/threads.hpp"
#include "formats/integers.hpp"

namespace microscale {
namespace {

constexpr std::int64_t rows_at_once = 16;
// Below it a pivot is what rounding left of the number it came from.
constexpr double least_pivot = 0x1p-30;

// Columns [begin, end) once those from `end` on are done.
class Step {
 public:
  Step(Triangle& a, const HessianKernels& kernels, int threads, std::vector<double>& u)
      : a_(a), kernels_(kernels), threads_(threads), u_(u) {}

  bool operator()(std::int64_t begin, std::int64_t end) {
    begin_ = begin;
    end_ = end;
    width_ = static_cast<int>(end - begin);
    gather();
    if (!factor_own()) return false;
    parallel_for(ceil_div(begin, rows_at_once), threads_, [&](std::int64_t index) {
      const std::int64_t first = index * rows_at_once,
                         count = std::min(rows_at_once, begin - first);
      std::array<double*, rows_at_once> c;
      std::array<const double*, rows_at_once> v;
      for (std::int64_t r = 0; r < count; ++r) {
        c[static_cast<std::size_t>(r)] = a_.row(first + r) + begin;
        v[static_cast<std::size_t>(r)] = a_.row(first + r) + end;
      }
      kernels_.eliminate(c.data(), v.data(), count, u(end), a_.size() - end, width_);
      kernels_.solve(c.data(), count, u(begin), width_);
    });
    return true;
  }

 private:
  double* u(std::int64_t k) { return u_.data() + (k - begin_) * factor_width; }

  // Rows of U, by columns.
  void gather() {
    constexpr std::int64_t run = 256;
    parallel_for(ceil_div(a_.size() - end_, run), threads_, [&](std::int64_t index) {
      const std::int64_t first = end_ + index * run, last = std::min(first + run, a_.size());
      for (std::int64_t k = first; k < last; ++k) {
        const double pivot = a_.row(k)[k];
        for (int j = 0; j < width_; ++j) u(k)[j] = a_.row(begin_ + j)[k] / pivot;
      }
    });
  }

  bool factor_own() {
    double own[factor_width][factor_width] = {}, before[factor_width];
    std::array<double*, factor_width> c;
    std::array<const double*, factor_width> v;
    for (int i = 0; i < width_; ++i) {
      double* row = a_.row(begin_ + i);
      std::copy(row + begin_ + i, row + end_, own[i] + i);
      c[static_cast<std::size_t>(i)] = own[i];
      v[static_cast<std::size_t>(i)] = row + end_;
      before[i] = own[i][i];
    }
    kernels_.eliminate(c.data(), v.data(), width_, u(end_), a_.size() - end_, width_);
    for (int k = width_ - 1; k >= 0; --k) {
      const double pivot = own[k][k];
      if (!(pivot > least_pivot * before[k]) || !std::isfinite(pivot)) return false;
      double* factors = u(begin_ + k);
      for (int j = 0; j < width_; ++j) factors[j] = j < k ? own[j][k] / pivot : 0;
      for (int i = 0; i < k; ++i)
        for (int j = i; j < k; ++j) own[i][j] = std::fma(-own[i][k], factors[j], own[i][j]);
    }
    for (int i = 0; i < width_; ++i)
      std::copy(own[i] + i, own[i] + width_, a_.row(begin_ + i) + begin_ + i);
    return true;
  }

  Triangle& a_;
  const HessianKernels& kernels_;
  int threads_;
  std::vector<double>& u_;
  std::int64_t begin_ = 0, end_ = 0;
  int width_ = 0;
};

}  // namespace

bool factor_hessian(Triangle& a, const HessianKernels& kernels, int threads) {
  std::vector<double> u(static_cast<std::size_t>(a.size() * factor_width));
  Step step(a, kernels, threads, u);
  for (std::int64_t end = a.size(); end > 0; end -= factor_width)
    if (!step(std::max<std::int64_t>(end - factor_width, 0), end)) return false;
  return true;
}

}  // namespace microscale
