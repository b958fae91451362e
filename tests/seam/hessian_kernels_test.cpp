// Kernels of every instruction set against the reference's, bit for bit; how panels lie.
#include "seam/hessian_kernels.hpp"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <vector>

#include "seam/kernel_table.hpp"
#include "support/present.hpp"

namespace microscale {
namespace {

std::vector<std::pair<Backend, const HessianKernels*>> kernels_here() {
  std::vector<std::pair<Backend, const HessianKernels*>> here;
  for (const KernelTable* table : test::present({&avx2_kernels, &avx512_kernels}))
    here.emplace_back(table->backend, table->backend == Backend::avx2 ? &avx2_hessian_kernels
                                                                      : &avx512_hessian_kernels);
  return here;
}

template <class T>
std::vector<T> random_numbers(std::size_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<T> normal;
  std::vector<T> numbers(count);
  for (T& number : numbers) number = normal(generator);
  return numbers;
}

TEST(HessianKernels, panels_lie_one_after_the_other) {
  EXPECT_EQ(factor_panel(0, 16), 0);
  for (std::int64_t b = 0; b < 5; ++b)
    EXPECT_EQ(factor_panel(b + 1, 32), factor_panel(b, 32) + (b + 1) * 32 * 32);
}

TEST(HessianKernels, eliminate_and_solve_have_the_references_bits) {
  constexpr std::int64_t depth = 37;
  for (const int width : {16, 48, 64})
    for (const std::int64_t count : {1, 7, 8, 13}) {
      const auto u = random_numbers<double>((depth + 64) * factor_width, 1);
      auto triangle = random_numbers<double>(factor_width * factor_width, 2);
      for (int k = 0; k < factor_width; ++k)
        for (int j = k; j < factor_width; ++j) triangle[std::size_t(k * factor_width + j)] = 0;
      const auto results = [&](const HessianKernels& kernels) {
        auto c = random_numbers<double>(13 * 64, 3);
        const auto v = random_numbers<double>(13 * depth, 4);
        std::array<double*, 13> rows;
        std::array<const double*, 13> others;
        for (std::size_t r = 0; r < 13; ++r) {
          rows[r] = c.data() + r * 64;
          others[r] = v.data() + std::int64_t(r) * depth;
        }
        kernels.eliminate(rows.data(), others.data(), count, u.data(), depth, width);
        kernels.solve(rows.data(), count, triangle.data(), width);
        return c;
      };
      const auto wanted = results(reference_hessian_kernels);
      for (const auto& [backend, kernels] : kernels_here())
        EXPECT_EQ(results(*kernels), wanted) << to_string(backend) << ' ' << width << ' ' << count;
    }
}

TEST(HessianKernels, products_have_the_references_bits) {
  for (const std::int64_t depth : {0, 1, 50}) {
    const auto values = random_numbers<float>(std::size_t(depth) * hessian_rows, 5);
    const auto matrix = random_numbers<float>(std::size_t(depth) * 40 + 16, 6);
    const auto results = [&](const HessianKernels& kernels) {
      auto sums = random_numbers<float>(16 * hessian_rows, 7);
      kernels.add_products(values.data(), depth, matrix.data() + 3, 40, sums.data());
      return sums;
    };
    const auto wanted = results(reference_hessian_kernels);
    for (const auto& [backend, kernels] : kernels_here())
      EXPECT_EQ(results(*kernels), wanted) << to_string(backend) << ' ' << depth;
  }
}

// Weights of every size, rows of zeros, and a scale that E4M3 cannot reach.
TEST(HessianKernels, codes_scales_and_errors_are_the_references) {
  constexpr std::int64_t cols = 96;
  for (const Format format : {Format::nvfp4, Format::mxfp4})
    for (const bool gptq : {false, true})
      for (const float size : {1e-42f, 1e-3f, 3e36f}) {
        HessianRows rows;
        const int block = info(format).block;
        auto weights = random_numbers<float>(cols * hessian_rows, 8);
        for (std::size_t i = 0; i < weights.size(); ++i)
          weights[i] = i % hessian_rows == 5 ? 0.0f : weights[i] * size;
        auto factor = random_numbers<float>(std::size_t(factor_panel(cols / block, block)), 9);
        for (float& number : factor) number *= 0.1f;
        auto pivots = random_numbers<float>(cols, 10);
        for (float& pivot : pivots) pivot *= pivot;
        const auto hessian = random_numbers<float>(std::size_t(cols * block), 11);
        rows.format = format;
        rows.global_scale = 1e-3f;
        rows.blocks = cols / block;
        rows.weights = weights.data();
        rows.factor = gptq ? factor.data() : nullptr;
        rows.pivots = pivots.data();
        rows.hessian_blocks = hessian.data();
        struct Result {
          std::vector<float> errors = std::vector<float>(cols * hessian_rows);
          std::vector<std::uint8_t> codes = std::vector<std::uint8_t>(cols * hessian_rows),
                                    scales = std::vector<std::uint8_t>(cols * hessian_rows);
        };
        const auto run = [&](const HessianKernels& kernels) {
          Result result;
          rows.errors = result.errors.data();
          rows.codes = result.codes.data();
          rows.scales = result.scales.data();
          kernels.quantize(rows);
          return result;
        };
        const Result wanted = run(reference_hessian_kernels);
        for (const auto& [backend, kernels] : kernels_here()) {
          const Result got = run(*kernels);
          EXPECT_EQ(got.scales, wanted.scales) << to_string(backend) << ' ' << size << gptq;
          EXPECT_EQ(got.codes, wanted.codes) << to_string(backend) << ' ' << size << gptq;
          EXPECT_EQ(got.errors, wanted.errors) << to_string(backend) << ' ' << size << gptq;
        }
      }
}

}  // namespace
}  // namespace microscale
