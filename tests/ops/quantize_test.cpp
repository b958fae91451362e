// The operation: quality, special values, axes, layouts, padding, refusals. Bytes of backends are
// compared in tests/cpu.
#include "microscale/quantize.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "formats/e8m0.hpp"
#include "formats/elements.hpp"
#include "layouts/tiled_128x4.hpp"
#include "microscale/error.hpp"
#include "support/matrices.hpp"
#include "support/present.hpp"

namespace microscale {
namespace {

using test::decoded;
using test::gaussian;
using test::Matrix;
using test::relative_mse;

QuantizeOptions options(const Matrix& m, Format format, ScaleRule rule = ScaleRule::search) {
  QuantizeOptions o;
  o.input = m.view();
  o.format = format;
  o.numerics.scale_rule = rule;
  return o;
}

double error_percent(Format format, ScaleRule rule) {
  const Matrix m = gaussian(DType::bf16, 256, 2048);
  return 100 * relative_mse(m, decoded(quantize(options(m, format, rule)).view()));
}

// Two-sided: a result that is too good would mean that the test no longer measures what it says.
TEST(Quantize, gaussian_error_is_within_its_band) {
  struct Row {
    Format format;
    ScaleRule rule;
    double low, high;
  };
  const Row rows[] = {
      {Format::nvfp4, ScaleRule::search, 0.655, 0.665},
      {Format::nvfp4, ScaleRule::full, 0.655, 0.665},
      {Format::nvfp4, ScaleRule::nearest, 0.895, 0.915},
      {Format::nvfp4, ScaleRule::four_over_six, 0.745, 0.765},
      {Format::nvfp4, ScaleRule::four_over_six_mae, 0.770, 0.790},
      {Format::mxfp4, ScaleRule::search, 1.230, 1.245},
      {Format::mxfp4, ScaleRule::floor, 1.285, 1.310},
      {Format::mxfp4, ScaleRule::even, 1.245, 1.270},
      {Format::mxfp4, ScaleRule::rceil, 1.385, 1.415},
      {Format::mxfp8_e4m3, ScaleRule::search, 0.0695, 0.0715},
      {Format::mxfp8_e4m3, ScaleRule::floor, 0.0840, 0.0870},
      {Format::mxfp8_e5m2, ScaleRule::search, 0.270, 0.285},
      {Format::mxfp6_e2m3, ScaleRule::search, 0.0765, 0.0795},
      {Format::mxfp6_e3m2, ScaleRule::search, 0.270, 0.285},
      {Format::mxint8, ScaleRule::search, 0.0060, 0.0066},
  };
  for (const Row& row : rows) {
    const double error = error_percent(row.format, row.rule);
    EXPECT_GE(error, row.low) << info(row.format).name << ' ' << to_string(row.rule);
    EXPECT_LE(error, row.high) << info(row.format).name << ' ' << to_string(row.rule);
  }
}

TEST(Quantize, search_is_never_worse_than_the_rules_it_contains) {
  const Matrix m = gaussian(DType::f32, 64, 1024, 5, 3.0f);
  const auto error = [&](Format f, ScaleRule r) {
    return relative_mse(m, decoded(quantize(options(m, f, r)).view()));
  };
  for (Format f : {Format::mxfp4, Format::mxfp8_e4m3, Format::mxfp6_e2m3, Format::mxint8})
    for (ScaleRule r : {ScaleRule::floor, ScaleRule::even, ScaleRule::rceil})
      EXPECT_LE(error(f, ScaleRule::search), error(f, r) * (1 + 1e-6)) << info(f).name;
  for (ScaleRule r : {ScaleRule::nearest, ScaleRule::four_over_six})
    EXPECT_LE(error(Format::nvfp4, ScaleRule::search), error(Format::nvfp4, r) * (1 + 1e-6));
}

TEST(Quantize, weights_move_error_to_where_it_matters_least) {
  const Matrix m = gaussian(DType::f32, 128, 512);
  std::vector<float> weights(512);
  for (std::size_t i = 0; i < 512; ++i) weights[i] = i % 2 ? 0.01f : 1.0f;
  const auto weighted_error = [&](const Matrix& restored) {
    double sum = 0;
    for (std::int64_t r = 0; r < m.rows; ++r)
      for (std::int64_t c = 0; c < m.cols; ++c)
        sum += weights[static_cast<std::size_t>(c)] * std::pow(m.at(r, c) - restored.at(r, c), 2);
    return sum;
  };
  for (Format f : {Format::nvfp4, Format::mxfp4}) {
    QuantizeOptions o = options(m, f);
    const double plain = weighted_error(decoded(quantize(o).view()));
    o.weights = weights;
    EXPECT_LT(weighted_error(decoded(quantize(o).view())), plain * 0.99) << info(f).name;
  }
}

// Experts that calibration never reached have an importance of exactly zero.
TEST(Quantize, weights_that_are_all_equal_or_zero_are_no_weights) {
  const Matrix m = gaussian(DType::bf16, 16, 544);
  for (const Backend backend : test::host_backends()) {
    for (Format f : {Format::nvfp4, Format::mxfp4, Format::mxfp8_e4m3, Format::mxint8}) {
      for (ScaleRule rule : scale_rules(f)) {
        QuantizeOptions o = options(m, f, rule);
        const BlockTensor plain = quantize(o, {.backend = backend});
        for (const float weight : {0.0f, 1e-44f, 3.0f, 1e38f, std::numeric_limits<float>::max()}) {
          const std::vector<float> weights(544, weight);
          o.weights = weights;
          const BlockTensor weighted = quantize(o, {.backend = backend});
          const auto what = [&] {
            return std::string(info(f).name) + ' ' + to_string(rule).data() + ' ' +
                   to_string(backend).data();
          };
          EXPECT_TRUE(std::ranges::equal(plain.scales(), weighted.scales()))
              << what() << ' ' << weight;
          EXPECT_TRUE(std::ranges::equal(plain.codes(), weighted.codes()))
              << what() << ' ' << weight;
        }
      }
    }
  }
}

TEST(Quantize, elements_that_do_not_count_are_not_destroyed) {
  Matrix m(DType::f32, 1, 64);
  for (std::int64_t c = 0; c < 64; ++c)
    m.set(0, c, c % 16 ? 0.1f * static_cast<float>(c % 16) : 0.0f);
  std::vector<float> weights(64);
  for (std::size_t c = 0; c < 64; c += 16)
    weights[c] = 1.0f;  // what counts is zero, and exact in any scale
  for (const Backend backend : test::host_backends()) {
    for (const auto& [format, rule] : {std::pair{Format::nvfp4, ScaleRule::search},
                                       {Format::nvfp4, ScaleRule::full},
                                       {Format::mxfp4, ScaleRule::search}}) {
      QuantizeOptions o = options(m, format, rule);
      const double plain = relative_mse(m, decoded(quantize(o, {.backend = backend}).view()));
      o.weights = weights;
      EXPECT_EQ(relative_mse(m, decoded(quantize(o, {.backend = backend}).view())), plain);
    }
  }
}

TEST(Quantize, same_bytes_at_any_thread_count) {
  const Matrix m = gaussian(DType::bf16, 700, 992);
  for (Format f : {Format::mxfp4, Format::nvfp4, Format::mxfp8_e4m3}) {
    for (Rounding rounding : {Rounding::nearest_even, Rounding::stochastic}) {
      QuantizeOptions o = options(m, f, scale_rules(f)[1]);
      o.numerics.rounding = rounding;
      o.numerics.scale_rule = f == Format::nvfp4 ? ScaleRule::nearest : ScaleRule::rceil;
      const BlockTensor one = quantize(o, {.threads = 1}), many = quantize(o, {.threads = 5});
      EXPECT_TRUE(std::equal(one.codes().begin(), one.codes().end(), many.codes().begin()));
      EXPECT_TRUE(std::equal(one.scales().begin(), one.scales().end(), many.scales().begin()));
      EXPECT_EQ(one.global_scale, many.global_scale);
    }
  }
}

TEST(Quantize, stochastic_rounding_is_unbiased_and_follows_the_seed) {
  Matrix m(DType::f32, 4096, 32);
  for (std::int64_t r = 0; r < m.rows; ++r)
    for (std::int64_t c = 0; c < m.cols; ++c) m.set(r, c, c == 0 ? 6.0f : 2.3f);
  QuantizeOptions o = options(m, Format::mxfp4, ScaleRule::rceil);
  o.numerics.rounding = Rounding::stochastic;
  o.numerics.seed = 9;
  const BlockTensor q = quantize(o);
  const Matrix d = decoded(q.view());
  double sum = 0;
  for (std::int64_t r = 0; r < m.rows; ++r)
    for (std::int64_t c = 1; c < m.cols; ++c) sum += d.at(r, c);
  EXPECT_NEAR(sum / (m.rows * 31), 2.3, 0.005);
  o.numerics.seed = 10;
  const BlockTensor other = quantize(o);
  EXPECT_FALSE(std::equal(q.codes().begin(), q.codes().end(), other.codes().begin()));
}

TEST(Quantize, blocks_down_the_columns_are_those_of_the_transpose) {
  const Matrix m = gaussian(DType::bf16, 96, 40);
  Matrix t(DType::bf16, 40, 96);
  for (std::int64_t r = 0; r < m.rows; ++r)
    for (std::int64_t c = 0; c < m.cols; ++c) t.set(c, r, m.at(r, c));
  for (Format f : {Format::mxfp4, Format::nvfp4, Format::mxfp8_e4m3}) {
    QuantizeOptions o = options(m, f);
    o.axis = BlockAxis::rows;
    const BlockTensor down = quantize(o), across = quantize(options(t, f));
    EXPECT_TRUE(std::equal(down.codes().begin(), down.codes().end(), across.codes().begin()));
    EXPECT_TRUE(std::equal(down.scales().begin(), down.scales().end(), across.scales().begin()));
    const Matrix d = decoded(down.view()), e = decoded(across.view());
    for (std::int64_t r = 0; r < m.rows; ++r)
      for (std::int64_t c = 0; c < m.cols; ++c) ASSERT_EQ(d.at(r, c), e.at(c, r));
  }
}

// Columns are cut where they are long: the parts are those of the rows by themselves.
TEST(Quantize, long_columns_are_their_parts) {
  constexpr std::int64_t rows = 4160, cut = 2048, cols = 3;
  const test::Matrix m = test::gaussian(DType::bf16, rows, cols);
  std::vector<float> weights;
  for (std::int64_t i = 0; i < rows; ++i) weights.push_back(static_cast<float>(i * 37 % 11));
  for (const bool stochastic : {false, true}) {
    const auto part = [&](std::int64_t first, std::int64_t count) {
      QuantizeOptions o{.input = m.view(), .format = Format::mxfp4, .axis = BlockAxis::rows};
      o.input.data = static_cast<const std::uint16_t*>(o.input.data) + first * cols;
      o.input.rows = count;
      o.first_index = static_cast<std::uint64_t>(first * cols);
      if (stochastic) {
        o.numerics.scale_rule = ScaleRule::floor;
        o.numerics.rounding = Rounding::stochastic;
      } else {
        o.weights = std::span<const float>(weights).subspan(static_cast<std::size_t>(first),
                                                            static_cast<std::size_t>(count));
      }
      return quantize(o);
    };
    const BlockTensor whole = part(0, rows);
    test::Matrix all(DType::f32, rows, cols);
    dequantize(whole.view(), all.mutable_view());
    for (std::int64_t first = 0; first < rows; first += cut) {
      const std::int64_t count = std::min(cut, rows - first);
      const BlockTensor own = part(first, count);
      test::Matrix values(DType::f32, count, cols);
      dequantize(own.view(), values.mutable_view());
      for (std::int64_t i = 0; i < count * cols; ++i)
        ASSERT_EQ(values.at(i / cols, i % cols), all.at(first + i / cols, i % cols));
      for (std::int64_t c = 0; c < cols; ++c)
        for (std::int64_t i = 0; i < count / 2; ++i)
          ASSERT_EQ(own.codes()[static_cast<std::size_t>(c * count / 2 + i)],
                    whole.codes()[static_cast<std::size_t>((c * rows + first) / 2 + i)]);
    }
  }
}

TEST(Quantize, tiled_scales_are_the_row_major_ones_elsewhere_with_zero_padding) {
  const Matrix m = gaussian(DType::bf16, 200, 160);
  QuantizeOptions o = options(m, Format::mxfp4);
  const BlockTensor rows = quantize(o);
  o.layout = Layout::tiled_128x4;
  const BlockTensor tiled = quantize(o);
  std::vector<bool> used(tiled.scales().size());
  for (std::int64_t r = 0; r < 200; ++r)
    for (std::int64_t b = 0; b < 5; ++b) {
      const auto offset = static_cast<std::size_t>(tiled_128x4::offset(r, b, 5));
      used[offset] = true;
      ASSERT_EQ(tiled.scales()[offset], rows.scales()[static_cast<std::size_t>(r * 5 + b)]);
    }
  for (std::size_t i = 0; i < used.size(); ++i)
    if (!used[i]) {
      ASSERT_EQ(tiled.scales()[i], 0);
    }
  std::vector<std::uint8_t> back(rows.scales().size());
  repack_scales(tiled.view(), Layout::row_major, back);
  EXPECT_TRUE(std::equal(back.begin(), back.end(), rows.scales().begin()));
  const Matrix d = decoded(tiled.view()), e = decoded(rows.view());
  EXPECT_EQ(d.bytes, e.bytes);
}

TEST(Quantize, pads_an_incomplete_block_with_zeros_on_request_only) {
  const Matrix m = gaussian(DType::f32, 5, 50);
  QuantizeOptions o = options(m, Format::mxfp4);
  EXPECT_THROW(quantize(o), Error);
  o.padding = Padding::zero;
  const BlockTensor q = quantize(o);
  EXPECT_EQ(q.shape().blocks_per_line(), 2);
  Matrix padded(DType::f32, 5, 64);
  for (std::int64_t r = 0; r < 5; ++r)
    for (std::int64_t c = 0; c < 50; ++c) padded.set(r, c, m.at(r, c));
  const BlockTensor p = quantize(options(padded, Format::mxfp4));
  EXPECT_TRUE(std::equal(q.codes().begin(), q.codes().end(), p.codes().begin()));
  EXPECT_LT(relative_mse(m, decoded(q.view())), 0.02);
}

TEST(Quantize, special_values_follow_the_policies) {
  Matrix m(DType::f32, 6, 32);
  for (std::int64_t r = 0; r < 6; ++r)
    for (std::int64_t c = 0; c < 32; ++c) m.set(r, c, static_cast<float>(c % 7) - 3);
  m.set(0, 3, NAN);
  m.set(1, 3, INFINITY);
  m.set(2, 3, -INFINITY);
  for (std::int64_t c = 0; c < 32; ++c) m.set(3, c, c % 2 ? -0.0f : 0.0f);
  for (std::int64_t c = 0; c < 32; ++c) m.set(4, c, 0x1p-149f);
  m.set(5, 0, std::numeric_limits<float>::max());

  QuantizeOptions o = options(m, Format::mxfp4, ScaleRule::rceil);
  BlockTensor q = quantize(o);
  EXPECT_EQ(q.scales()[0], e8m0_nan);
  EXPECT_EQ(q.scales()[1], e8m0_max);
  EXPECT_EQ(q.scales()[3], 0);
  EXPECT_EQ(q.codes()[3 * 16], 0x80);  // +0 in the low nibble, -0 in the high one
  EXPECT_EQ(q.scales()[4], 0);
  EXPECT_EQ(q.scales()[5], 253);
  EXPECT_TRUE(std::isnan(decoded(q.view()).at(0, 0)));
  EXPECT_EQ(q.codes()[2 * 16 + 1] >> 4, 0xF);  // -infinity takes the largest code

  o.numerics.nan = NanPolicy::drop;
  o.numerics.inf = InfPolicy::nan_block;
  o.numerics.zero_code = ZeroCode::positive;
  q = quantize(o);
  EXPECT_EQ(q.scales()[0], 126);  // largest remaining magnitude 3
  EXPECT_EQ(q.codes()[1] >> 4, 0x7);
  EXPECT_EQ(q.scales()[1], e8m0_nan);
  EXPECT_EQ(q.codes()[3 * 16], 0x00);

  o.non_finite = NonFinite::refuse;
  try {
    quantize(o);
    FAIL() << "a NaN passed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    EXPECT_NE(std::string(error.what()).find("row 0, column 3"), std::string::npos) << error.what();
  }
}

TEST(Quantize, nvfp4_special_values) {
  Matrix m(DType::f32, 4, 16);
  for (std::int64_t c = 0; c < 16; ++c) m.set(0, c, 1.0f), m.set(2, c, 1e-30f), m.set(3, c, 0.0f);
  m.set(1, 0, NAN);
  QuantizeOptions o = options(m, Format::nvfp4, ScaleRule::nearest);
  const BlockTensor q = quantize(o);
  EXPECT_EQ(q.scales()[0], 0x7E);
  EXPECT_EQ(q.scales()[1], 0x7F);
  EXPECT_EQ(q.scales()[2], 0x00);  // underflows: the block is zeros, scale and codes
  EXPECT_EQ(q.codes()[2 * 8], 0x00);
  EXPECT_EQ(q.scales()[3], 0x00);
  o.numerics.scale_rule = ScaleRule::search;
  EXPECT_EQ(quantize(o).scales()[2], 0x01);  // a search never gives a block that has values scale 0
}

TEST(Quantize, empty_matrices_are_fine) {
  for (auto [r, c] : {std::pair{0, 32}, {4, 0}, {0, 0}}) {
    const Matrix m(DType::f32, r, c);
    const BlockTensor q = quantize(options(m, Format::nvfp4));
    EXPECT_EQ(q.codes().size(), 0u);
    EXPECT_EQ(q.global_scale, 1.0f);
  }
}

TEST(Quantize, refuses_with_what_where_and_how) {
  const Matrix m = gaussian(DType::f32, 2, 64);
  const auto message = [&](auto&& change) {
    QuantizeOptions o = options(m, Format::mxfp4);
    change(o);
    try {
      quantize(o);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  const auto has = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  has(message([](auto& o) { o.input.cols = 33; }), "block of 32");
  has(message([](auto& o) { o.format = static_cast<Format>(77); }), "Format 77");
  has(message([](auto& o) { o.input.dtype = static_cast<DType>(77); }), "DType 77");
  has(message([](auto& o) { o.global_scale = 2.0f; }), "global scale 2 for mxfp4, which has none");
  has(message([](auto& o) { o.input.row_stride = 3; }), "row_stride");
  has(message([](auto& o) { o.input.data = nullptr; }), "null");
  has(message([](auto& o) { o.input.rows = -1; }), "negative");
  has(message([](auto& o) { o.numerics.scale_rule = ScaleRule::nearest; }),
      "has no scale rule nearest");
  const std::vector<float> few(3, 1.0f), bad(64, -1.0f);
  has(message([&](auto& o) { o.weights = few; }), "3 importance weights for 64");
  has(message([&](auto& o) { o.weights = bad; }), "must be finite and not negative");
  has(message([](auto& o) {
        o.format = Format::nvfp4;
        o.global_scale = 0.0f;
      }),
      "global scale");
  has(message([](auto& o) {
        o.format = Format::nvfp4;
        o.tensor_amax = -1.0f;
      }),
      "largest magnitude is -1");
}

}  // namespace
}  // namespace microscale
