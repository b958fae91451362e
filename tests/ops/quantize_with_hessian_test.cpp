// The operation: bytes of backends and against plain quantizing, quality, refusals. Its values:
// tests/reference/hessian_kernels_test.cpp.
#include "microscale/hessian.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "microscale/error.hpp"
#include "microscale/quantize.hpp"
#include "support/hessian_oracle.hpp"
#include "support/matrices.hpp"
#include "support/present.hpp"

namespace microscale {
namespace {

using test::correlated_hessian;
using test::decoded;
using test::diagonal_hessian;
using test::gaussian;
using test::Matrix;

constexpr Format formats[] = {Format::nvfp4, Format::mxfp4};
constexpr HessianMethod methods[] = {HessianMethod::gptq, HessianMethod::block_hessian};

HessianOptions hessian_options(const std::vector<float>& hessian, Format format,
                               HessianMethod method = HessianMethod::gptq) {
  HessianOptions options;
  options.hessian = hessian;
  options.cols = static_cast<std::int64_t>(std::lround(std::sqrt(double(hessian.size()))));
  options.format = format;
  options.method = method;
  return options;
}

BlockTensor quantized(const Matrix& w, const HessianOptions& options, const Context& context = {},
                      ScaleRule rule = ScaleRule::search) {
  const PreparedHessian hessian(options, context);
  return quantize_with_hessian({.input = w.view(), .hessian = &hessian, .scale_rule = rule},
                               context);
}

double output_error_of(const Matrix& w, const BlockTensor& q, const std::vector<float>& h) {
  return output_error(w.view(), q.view(), h).relative();
}

bool same_bytes(const BlockTensor& a, const BlockTensor& b) {
  return std::ranges::equal(a.codes(), b.codes()) && std::ranges::equal(a.scales(), b.scales()) &&
         a.global_scale == b.global_scale;
}

TEST(QuantizeWithHessian, bytes_are_the_same_on_every_backend_at_any_number_of_threads) {
  const Matrix w = gaussian(DType::bf16, 70, 352, 5);
  const std::vector<float> h = correlated_hessian(352, 200);
  for (const Format format : formats)
    for (const HessianMethod method : methods)
      for (const ScaleRule rule : {ScaleRule::search, ScaleRule::full}) {
        if (format == Format::mxfp4 && rule == ScaleRule::full) continue;
        const HessianOptions options = hessian_options(h, format, method);
        const BlockTensor wanted =
            quantized(w, options, {.backend = Backend::reference, .threads = 1}, rule);
        for (const Backend backend : test::host_backends())
          for (const int threads : {1, 2, 7})
            EXPECT_TRUE(same_bytes(
                wanted, quantized(w, options, {.backend = backend, .threads = threads}, rule)))
                << to_string(backend) << ' ' << threads << ' ' << info(format).name << ' '
                << to_string(method) << ' ' << to_string(rule);
      }
}

// Blocks with a byte below that of `floor` are of MXFP4's wider search.
std::int64_t blocks_that_differ(const BlockTensor& a, const BlockTensor& b, Format format) {
  const std::int64_t bytes = info(format).block / 2;
  std::int64_t differ = 0;
  for (std::size_t i = 0; i < a.scales().size(); ++i) {
    const bool same =
        a.scales()[i] == b.scales()[i] &&
        std::equal(&a.codes()[i * std::size_t(bytes)], &a.codes()[i * std::size_t(bytes)] + bytes,
                   &b.codes()[i * std::size_t(bytes)]);
    if (same) continue;
    if (format == Format::mxfp4 && a.scales()[i] == b.scales()[i] - 1) continue;
    ++differ;
  }
  return differ;
}

TEST(QuantizeWithHessian, identity_and_diagonal_without_damping_are_plain_searches) {
  const Matrix w = gaussian(DType::f32, 40, 192, 7);
  std::vector<float> energies(192);
  for (std::size_t k = 0; k < energies.size(); ++k) energies[k] = std::exp(float(k * 7 % 11) - 5);
  for (const Format format : formats)
    for (const HessianMethod method : methods)
      for (const bool weighted : {false, true}) {
        const std::vector<float> h =
            diagonal_hessian(weighted ? energies : std::vector<float>(192, 1.0f));
        HessianOptions options = hessian_options(h, format, method);
        options.damping = 0;
        QuantizeOptions plain;
        plain.input = w.view();
        plain.format = format;
        if (weighted) plain.weights = energies;
        const BlockTensor wanted = quantize(plain), got = quantized(w, options);
        EXPECT_EQ(blocks_that_differ(got, wanted, format), 0)
            << info(format).name << ' ' << to_string(method) << ' ' << weighted;
        EXPECT_LE(output_error_of(w, got, h), output_error_of(w, wanted, h) * (1 + 1e-6));
      }
}

TEST(QuantizeWithHessian, each_step_lowers_the_error_of_the_output) {
  const Matrix w = gaussian(DType::f32, 96, 256, 9);
  const std::vector<float> h = correlated_hessian(256, 3000);
  const std::vector<float> other = correlated_hessian(256, 3001);  // of (nearly) the same inputs
  std::vector<float> diagonal(256);
  for (std::size_t k = 0; k < 256; ++k) diagonal[k] = h[k * 257];
  for (const Format format : formats) {
    QuantizeOptions plain;
    plain.input = w.view();
    plain.format = format;
    const double search = output_error_of(w, quantize(plain), other);
    plain.weights = diagonal;
    const double weighted = output_error_of(w, quantize(plain), other);
    const double blocks = output_error_of(
        w, quantized(w, hessian_options(h, format, HessianMethod::block_hessian)), other);
    const double gptq = output_error_of(w, quantized(w, hessian_options(h, format)), other);
    EXPECT_LT(weighted, search) << info(format).name;
    EXPECT_LT(blocks, weighted) << info(format).name;
    EXPECT_LT(gptq, 0.7 * blocks) << info(format).name;
    EXPECT_GT(gptq, 0.05 * search) << info(format).name;
  }
}

TEST(QuantizeWithHessian, part_of_the_rows_has_the_bytes_of_the_whole) {
  const Matrix w = gaussian(DType::f32, 45, 64, 2);
  const PreparedHessian hessian(hessian_options(correlated_hessian(64, 100), Format::nvfp4));
  const float amax = abs_max(w.view()).amax;
  const BlockTensor whole = quantize_with_hessian({.input = w.view(), .hessian = &hessian});
  TensorView part = w.view();
  part.data = w.bytes.data() + 13 * 64 * 4;
  part.rows = 20;
  const BlockTensor rows =
      quantize_with_hessian({.input = part, .hessian = &hessian, .tensor_amax = amax});
  EXPECT_EQ(rows.global_scale, whole.global_scale);
  EXPECT_TRUE(std::equal(rows.codes().begin(), rows.codes().end(), &whole.codes()[13 * 32]));
  EXPECT_TRUE(std::equal(rows.scales().begin(), rows.scales().end(), &whole.scales()[13 * 4]));
}

TEST(QuantizeWithHessian, one_token_and_dead_columns_have_a_result) {
  const Matrix w = gaussian(DType::f32, 8, 96, 4);
  const std::vector<float> one = correlated_hessian(96, 1);
  std::vector<float> dead = correlated_hessian(96, 500);
  for (const std::size_t k : {0u, 17u, 95u})
    for (std::size_t i = 0; i < 96; ++i) dead[k * 96 + i] = dead[i * 96 + k] = 0;
  for (const Format format : formats)
    for (const std::vector<float>& h : {one, dead, std::vector<float>(96 * 96)}) {
      const BlockTensor q = quantized(w, hessian_options(h, format));
      EXPECT_LT(test::relative_mse(w, decoded(q.view())), 0.2) << info(format).name;
    }
  // Columns that calibration did not see keep their weights.
  const Matrix values = decoded(quantized(w, hessian_options(dead, Format::nvfp4)).view());
  for (std::int64_t r = 0; r < w.rows; ++r)
    EXPECT_NEAR(values.at(r, 17), w.at(r, 17), 0.011f) << "row " << r;
}

TEST(QuantizeWithHessian, zeros_stay_zeros) {
  const Matrix w(DType::f32, 3, 32);
  const std::vector<float> h = correlated_hessian(32, 100);
  for (const Format format : formats) {
    const BlockTensor q = quantized(w, hessian_options(h, format));
    for (const std::uint8_t byte : q.codes()) EXPECT_EQ(byte, 0);
    for (const std::uint8_t scale : q.scales()) EXPECT_EQ(scale, 0);
  }
}

ErrorCode code_of(const HessianQuantizeOptions& options) {
  try {
    quantize_with_hessian(options);
  } catch (const Error& error) {
    return error.code();
  }
  ADD_FAILURE() << "nothing was refused";
  return ErrorCode::interrupted;
}

TEST(QuantizeWithHessian, refuses_what_it_cannot_do) {
  Matrix w = gaussian(DType::f32, 4, 64);
  const PreparedHessian hessian(hessian_options(correlated_hessian(64, 100), Format::nvfp4));
  const PreparedHessian other(hessian_options(correlated_hessian(32, 100), Format::mxfp4));
  EXPECT_EQ(code_of({.input = w.view()}), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of({.input = w.view(), .hessian = &other}), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of({.input = w.view(), .hessian = &hessian, .scale_rule = ScaleRule::floor}),
            ErrorCode::invalid_argument);
  EXPECT_EQ(code_of({.input = w.view(), .hessian = &hessian, .global_scale = 0.0f}),
            ErrorCode::invalid_argument);
  w.set(2, 5, std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(code_of({.input = w.view(), .hessian = &hessian}), ErrorCode::bad_input);
}

}  // namespace
}  // namespace microscale
