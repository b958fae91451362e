#include "reference/producers.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "formats/producers.hpp"
#include "reference/dense.hpp"

namespace microscale {
namespace {

float element(const TensorView& m, std::int64_t row, std::int64_t col) {
  return load_dense(m.data, m.dtype, row * m.row_stride + col);
}

// Sum of squares in the order that formats/producers.hpp fixes.
float sum_of_squares(const float* row, std::int64_t cols) {
  constexpr std::int64_t segment = rms_group * rms_segment_groups;
  float total = 0;
  for (std::int64_t first = 0; first < cols; first += segment) {
    std::array<float, rms_segment_groups> sums{};
    int groups = 0;
    for (; groups < rms_segment_groups && first + groups * rms_group < cols; ++groups) {
      const std::int64_t start = first + groups * rms_group;
      sums[static_cast<std::size_t>(groups)] =
          rms_group_sum([&](int i) { return start + i < cols ? row[start + i] : 0.0f; });
    }
    const float sum = sum_of_groups(sums.data(), groups);
    total = first == 0 ? sum : total + sum;
  }
  return total;
}

// Every NaN as GPUs make them, positive: quantizers that leave NaNs out of the scale keep their
// sign.
void make_nans_canonical(float* values, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i)
    if (values[i] != values[i]) values[i] = std::bit_cast<float>(0x7FFFFFFFu);
}

}  // namespace

// Groups that are not there are zeros, which change no sum.
float sum_of_groups(float* sums, int groups) {
  for (; groups > 1; groups = (groups + 1) / 2)
    for (int i = 0; i < groups; i += 2)
      sums[i / 2] = i + 1 < groups ? sums[i] + sums[i + 1] : sums[i];
  return sums[0];
}

float row_multiplier(float sum, std::int64_t cols, float epsilon) {
  return rms_multiplier(sum, rms_inverse_count(cols), epsilon);
}

void silu_mul_rows(const SiluMulOptions& o, std::int64_t first, std::int64_t count, float* output) {
  for (std::int64_t row = first; row < first + count; ++row, output += o.gate.cols) {
    for (std::int64_t col = 0; col < o.gate.cols; col += 2) {
      const SiluPair pair =
          silu_mul(clamp_gate(element(o.gate, row, col)), clamp_gate(element(o.gate, row, col + 1)),
                   element(o.up, row, col), element(o.up, row, col + 1));
      output[col] = pair.first;
      output[col + 1] = pair.second;
    }
    make_nans_canonical(output, o.gate.cols);
  }
}

void rms_norm_rows(const RmsNormOptions& o, std::int64_t first, std::int64_t count, float* output) {
  const std::int64_t cols = o.input.cols;
  for (std::int64_t row = first; row < first + count; ++row, output += cols) {
    for (std::int64_t col = 0; col < cols; ++col) {
      output[col] = element(o.input, row, col);
      if (o.residual.data == nullptr) continue;
      const std::int64_t at = row * o.sum.row_stride + col;
      store_dense(output[col] + element(o.residual, row, col), o.sum.data, o.sum.dtype, at);
      output[col] = load_dense(o.sum.data, o.sum.dtype, at);
    }
    const float multiplier = row_multiplier(sum_of_squares(output, cols), cols, o.epsilon);
    for (std::int64_t col = 0; col < cols; ++col)
      output[col] = rms_value(output[col], multiplier,
                              o.weight ? load_dense(o.weight, o.input.dtype, col) : 1.0f);
    make_nans_canonical(output, cols);
  }
}

void hadamard_rows(const HadamardOptions& o, std::int64_t first, std::int64_t count,
                   float* output) {
  const float scale = hadamard_scale(o.order);
  for (std::int64_t row = first; row < first + count; ++row)
    for (std::int64_t start = 0; start < o.input.cols; start += o.order, output += o.order) {
      for (int i = 0; i < o.order; ++i) {
        const std::uint32_t sign = o.negated[static_cast<std::size_t>(i / 32)] >> (i % 32) << 31;
        output[i] = std::bit_cast<float>(
            std::bit_cast<std::uint32_t>(element(o.input, row, start + i)) ^ sign);
      }
      for (int i = 0; i < o.order; i += 2) hadamard_first(output[i], output[i + 1], scale);
      for (int distance = 2; distance < o.order; distance *= 2)
        for (int i = 0; i < o.order; ++i)
          if (!(i & distance)) hadamard_step(output[i], output[i + distance]);
      make_nans_canonical(output, o.order);
    }
}

}  // namespace microscale
