// Wall time of a call, and the median of several.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

namespace microscale::bench {

template <class Body>
double seconds_of(Body&& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// The upper one of two middle times; `times` is not empty.
inline double median(std::vector<double> times) {
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

}  // namespace microscale::bench
