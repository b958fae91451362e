// Rows for append_kv: every vector table gives the reference's bits (any NaN for a NaN).
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "seam/row_kernels.hpp"
#include "cpu/compare.hpp"
#include "cpu/inputs.hpp"

namespace microscale {
namespace {

const RowKernels& reference() { return *reference_kernels.rows; }

void expect_same(const std::vector<float>& got, const std::vector<float>& want,
                 const KernelTable& table, const std::string& what) {
  for (std::size_t i = 0; i < want.size(); ++i)
    ASSERT_TRUE(std::bit_cast<std::uint32_t>(got[i]) == std::bit_cast<std::uint32_t>(want[i]) ||
                (std::isnan(got[i]) && std::isnan(want[i])))
        << to_string(table.backend) << ' ' << what << ", element " << i << ": " << got[i]
        << " instead of " << want[i];
}

TEST(CpuRows, become_fp32) {
  for (const KernelTable* table : test::vector_tables())
    for (const DType type : {DType::f32, DType::f16, DType::bf16})
      for (const test::Input& input : test::inputs(type, 4096)) {
        const auto bytes = test::to_bytes(input);
        const auto count = static_cast<std::int64_t>(input.bits.size() / 32 * 32);
        std::vector<float> got(static_cast<std::size_t>(count)), want = got;
        table->rows->to_floats(bytes.data(), type, count, got.data());
        reference().to_floats(bytes.data(), type, count, want.data());
        expect_same(got, want, *table, input.name);
      }
}

// Every upper half of FP32, with lower halves on both sides of a tie.
TEST(CpuRows, quantize_to_fp8) {
  std::vector<float> values;
  for (std::uint32_t upper = 0; upper < 1u << 16; ++upper)
    for (const std::uint32_t lower : {0u, 1u, 0x7FFFu, 0x8000u})
      values.push_back(std::bit_cast<float>(upper << 16 | lower));
  const auto count = static_cast<std::int64_t>(values.size());
  std::vector<std::uint8_t> got(values.size()), want(values.size());
  for (const float inverse : {1.0f, 0.37f, 1e30f, 0x1p-126f, 0.0f,
                              std::numeric_limits<float>::infinity(), std::nanf("")}) {
    reference().quantize_fp8(values.data(), count, inverse, want.data());
    for (const KernelTable* table : test::vector_tables()) {
      table->rows->quantize_fp8(values.data(), count, inverse, got.data());
      for (std::size_t i = 0; i < values.size(); ++i)
        ASSERT_EQ(got[i], want[i])
            << to_string(table->backend) << ' ' << values[i] << " * " << inverse;
    }
  }
}

// Widths that fill vectors, that do not, and none; a NaN and an infinity among the elements.
TEST(CpuRows, transform_keys) {
  constexpr std::int64_t positions = 5, heads = 2;
  for (const std::int64_t d : {32, 96, 128, 256})
    for (const std::int64_t width : {std::int64_t{0}, std::int64_t{6}, std::int64_t{16}, d / 2, d})
      for (const bool interleaved : {false, true})
        for (const bool centred : {false, true})
          for (const int hadamard : {0, 16}) {
            std::vector<float> cos(static_cast<std::size_t>(positions * width / 2)), sin = cos,
                                                                                     mean;
            if (width > 0) fill_rope_tables(1e4, positions, width, cos, sin);
            for (std::int64_t i = 0; i < heads * d; ++i)
              mean.push_back(std::sin(static_cast<float>(i)));
            AppendKvOptions o;
            o.cache.d = d;
            if (centred) o.cache.k_mean = mean.data();
            o.cache.hadamard = hadamard;
            if (width > 0) o.rope = {cos.data(), sin.data(), positions, width, interleaved};
            std::vector<float> row(static_cast<std::size_t>(d));
            for (std::size_t i = 0; i < row.size(); ++i)
              row[i] = std::cos(3.7f * static_cast<float>(i)) * (i % 7 == 0 ? 1e20f : 1.0f);
            row[20] = std::nanf("");
            row[static_cast<std::size_t>(d) - 1] = std::numeric_limits<float>::infinity();
            std::vector<float> want = row;
            reference().transform_key(o, 1, 3, want.data());
            for (const KernelTable* table : test::vector_tables()) {
              std::vector<float> got = row;
              table->rows->transform_key(o, 1, 3, got.data());
              expect_same(got, want, *table,
                          "d " + std::to_string(d) + " width " + std::to_string(width));
            }
          }
}

}  // namespace
}  // namespace microscale
