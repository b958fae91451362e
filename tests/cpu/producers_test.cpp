// Rows of what producers make: every vector table gives the reference's bits.
#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <string>
#include <vector>

#include "seam/row_kernels.hpp"
#include "cpu/compare.hpp"
#include "cpu/inputs.hpp"

namespace microscale {
namespace {

constexpr std::int64_t rows = 3;
constexpr DType types[] = {DType::f32, DType::f16, DType::bf16};
// A vector, an incomplete pair of them, whole and cut groups, and a second segment of groups.
constexpr std::int64_t widths[] = {16, 48, 64, 240, 1024, 16384 + 528};

/// A matrix with gaps between its rows and numbers of all kinds, some of them NaN and infinite.
struct Matrix {
  DType type;
  std::int64_t cols, stride;
  std::vector<std::uint8_t> bytes;

  Matrix(DType type_, std::int64_t cols_, std::uint32_t seed)
      : type(type_), cols(cols_), stride(cols + 4 + seed) {
    const auto count = static_cast<int>(rows * stride);
    const test::Input input = test::of_values("", type, count, [&](int i) {
      const std::uint32_t random = 0x9E3779B1u * (static_cast<std::uint32_t>(i) + seed);
      const float x = static_cast<float>(static_cast<std::int32_t>(random)) * 0x1p-29f;
      if (i == 2 * stride + 7) return std::numeric_limits<float>::quiet_NaN();
      if (i == 2 * stride + 9) return -std::numeric_limits<float>::infinity();
      return i % 11 == 0 ? x * 1e3f : i % 13 == 0 ? x * 1e-6f : x;
    });
    bytes = test::to_bytes(input);
  }
  TensorView view() const { return {bytes.data(), type, rows, cols, stride}; }
};

void expect_same(const std::vector<float>& got, const std::vector<float>& want,
                 const KernelTable& table, const Matrix& m, const std::string& what) {
  for (std::size_t i = 0; i < want.size(); ++i)
    ASSERT_EQ(std::bit_cast<std::uint32_t>(got[i]), std::bit_cast<std::uint32_t>(want[i]))
        << to_string(table.backend) << ' ' << to_string(m.type) << ' ' << m.cols << " columns, "
        << what << ", element " << i << ": " << got[i] << " instead of " << want[i];
}

/// Rows 1 and 2 by the reference and by each table; `make(kernels, output)`.
template <class Make>
void compare(const Matrix& m, const std::string& what, Make&& make) {
  std::vector<float> want(static_cast<std::size_t>(2 * m.cols + 1), 7.0f);
  const std::vector<float> before = want;
  make(*reference_kernels.rows, want.data());
  for (const KernelTable* table : test::vector_tables()) {
    std::vector<float> got = before;
    make(*table->rows, got.data());
    expect_same(got, want, *table, m, what);
  }
}

TEST(CpuProducers, silu_mul) {
  for (const DType type : types)
    for (const std::int64_t cols : widths) {
      const Matrix gate(type, cols, 1), up(type, cols, 2);
      compare(gate, "SiLU", [&](const RowKernels& kernels, float* output) {
        kernels.silu_mul({.gate = gate.view(), .up = up.view(), .output = {}}, 1, 2, output);
      });
    }
}

TEST(CpuProducers, rms_norm) {
  for (const DType type : types)
    for (const std::int64_t cols : widths)
      for (const bool weighted : {false, true}) {
        const Matrix x(type, cols, 3), weight(type, cols, 4);
        compare(x, "RMSNorm", [&](const RowKernels& kernels, float* output) {
          kernels.rms_norm(
              {.input = x.view(), .weight = weighted ? weight.bytes.data() : nullptr, .output = {}},
              1, 2, output);
        });
      }
}

// In place and elsewhere; what is written beside the sum shows, too.
TEST(CpuProducers, rms_norm_of_a_sum) {
  for (const DType type : types)
    for (const std::int64_t cols : widths)
      for (const bool in_place : {false, true}) {
        const Matrix x(type, cols, 5), residual(type, cols, 6), other(type, cols, 7);
        std::vector<std::vector<std::uint8_t>> sums;
        compare(x, "RMSNorm of a sum", [&](const RowKernels& kernels, float* output) {
          Matrix sum = in_place ? residual : other;
          RmsNormOptions o{
              .input = x.view(), .residual = in_place ? sum.view() : residual.view(), .output = {}};
          o.sum = {sum.bytes.data(), type, rows, cols, sum.stride};
          kernels.rms_norm(o, 1, 2, output);
          sums.push_back(sum.bytes);
        });
        for (const auto& sum : sums) EXPECT_EQ(sum, sums[0]) << to_string(type) << ' ' << cols;
        EXPECT_NE(sums[0], (in_place ? residual : other).bytes);
      }
}

TEST(CpuProducers, hadamard) {
  for (const DType type : types)
    for (const std::int64_t cols : {std::int64_t{128}, std::int64_t{1024}})
      for (const int order : {16, 32, 64, 128})
        for (const bool random : {false, true}) {
          const Matrix x(type, cols, 7);
          compare(x, "Hadamard " + std::to_string(order),
                  [&](const RowKernels& kernels, float* output) {
                    HadamardOptions o{.input = x.view(), .order = order, .output = {}};
                    if (random) o.negated = {0x80000001u, 0x12345678u, 0xFFFFFFFFu, 0x0F0F0F0Fu};
                    kernels.hadamard(o, 1, 2, output);
                  });
        }
}

}  // namespace
}  // namespace microscale
