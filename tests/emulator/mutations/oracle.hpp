// What the FP4 kernels here should compute, in FP64 and from the definitions only.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

namespace microscale::emulator::mutations {

inline constexpr std::array<double, 8> e2m1_values = {0, 0.5, 1, 1.5, 2, 3, 4, 6};

inline double e2m1(std::uint32_t code) { return (code & 8 ? -1 : 1) * e2m1_values[code & 7]; }
inline double e8m0(std::uint32_t code) { return std::ldexp(1.0, static_cast<int>(code) - 127); }
inline double ue4m3(std::uint32_t code) {
  const int exponent = static_cast<int>(code >> 3 & 15), mantissa = static_cast<int>(code & 7);
  return exponent ? std::ldexp(8 + mantissa, exponent - 10) : std::ldexp(mantissa, -9);
}

/// The nearest E2M1 value, of two equally near the one with the even code.
inline double to_e2m1(double x) {
  std::size_t best = 0;
  for (std::size_t code = 1; code < 8; ++code) {
    const double now = std::abs(std::abs(x) - e2m1_values[code]),
                 before = std::abs(std::abs(x) - e2m1_values[best]);
    if (now < before || (now == before && code % 2 == 0)) best = code;
  }
  return std::copysign(e2m1_values[best], x);
}

/// Blocks of 32 in MXFP4 and back, with the scale that leaves the largest magnitude at 2 to 4.
inline std::vector<double> through_mxfp4(const std::vector<float>& values) {
  std::vector<double> result(values.size());
  for (std::size_t block = 0; block < values.size(); block += 32) {
    double largest = 0;
    for (std::size_t i = block; i < block + 32; ++i)
      largest = std::max(largest, std::abs(double{values[i]}));
    const double scale = std::exp2(std::floor(std::log2(largest)) - 1);
    for (std::size_t i = block; i < block + 32; ++i) result[i] = scale * to_e2m1(values[i] / scale);
  }
  return result;
}

/// A (rows x k) times the transpose of B (columns x k).
inline std::vector<double> product(const std::vector<double>& a, const std::vector<double>& b,
                                   std::size_t k) {
  const std::size_t rows = a.size() / k, columns = b.size() / k;
  std::vector<double> d(rows * columns, 0);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < columns; ++j)
      for (std::size_t t = 0; t < k; ++t) d[i * columns + j] += a[i * k + t] * b[j * k + t];
  return d;
}

/// Whether they agree to `tolerance` of the largest expected magnitude.
inline bool close(const std::vector<float>& got, const std::vector<double>& expected,
                  double tolerance) {
  double largest = 0;
  for (const double each : expected) largest = std::max(largest, std::abs(each));
  for (std::size_t i = 0; i < expected.size(); ++i)
    if (!(std::abs(got[i] - expected[i]) <= tolerance * largest)) return false;
  return got.size() == expected.size();
}

/// A sequence of well-mixed 32-bit numbers.
class Mixed {
 public:
  explicit Mixed(std::uint64_t seed) : state_(seed) {}
  std::uint32_t operator()() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::uint32_t>((state_ ^ state_ >> 22) >> 29);
  }
  std::uint32_t below(std::uint32_t end) { return (*this)() % end; }

 private:
  std::uint64_t state_;
};

}  // namespace microscale::emulator::mutations
