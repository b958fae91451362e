// Both axes in one call: the bytes of two calls, one global scale, and what is refused.
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "microscale/error.hpp"
#include "microscale/quantize.hpp"
#include "support/matrices.hpp"

namespace microscale {
namespace {

using test::gaussian;
using test::Matrix;

struct Both {
  explicit Both(const QuantizeOptions& o)
      : rows({o.input.rows, o.input.cols, o.format, BlockAxis::cols, o.layout}),
        columns({o.input.rows, o.input.cols, o.format, BlockAxis::rows, o.layout}) {}
  void run(const QuantizeOptions& o) {
    rows.global_scale = columns.global_scale =
        quantize_both_into(o, rows.codes(), rows.scales(), columns.codes(), columns.scales())
            .value();
  }
  BlockTensor rows, columns;
};

bool same(const BlockTensor& a, const BlockTensor& b) {
  return a.global_scale == b.global_scale &&
         std::equal(a.codes().begin(), a.codes().end(), b.codes().begin(), b.codes().end()) &&
         std::equal(a.scales().begin(), a.scales().end(), b.scales().begin(), b.scales().end());
}

void expect_refused(const QuantizeOptions& o, ErrorCode code, const std::string& words) {
  Both both(o);
  try {
    both.run(o);
    ADD_FAILURE() << "no error; expected: " << words;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

TEST(QuantizeBoth, gives_the_bytes_of_two_calls) {
  const Matrix m = gaussian(DType::bf16, 96, 160);
  for (Format format : {Format::mxfp4, Format::nvfp4, Format::mxfp8_e4m3, Format::mxfp8_e5m2})
    for (Layout layout : {Layout::row_major, Layout::tiled_128x4}) {
      QuantizeOptions o{.input = m.view(), .format = format, .layout = layout};
      Both both(o);
      both.run(o);
      EXPECT_TRUE(same(both.rows, quantize(o))) << info(format).name;
      o.axis = BlockAxis::rows;
      EXPECT_TRUE(same(both.columns, quantize(o))) << info(format).name;
    }
}

TEST(QuantizeBoth, uses_a_given_global_scale_for_both) {
  const Matrix m = gaussian(DType::f32, 32, 64);
  QuantizeOptions o{.input = m.view(), .format = Format::nvfp4, .global_scale = 0.01f};
  Both both(o);
  both.run(o);
  EXPECT_EQ(both.rows.global_scale, 0.01f);
  o.axis = BlockAxis::rows;
  EXPECT_TRUE(same(both.columns, quantize(o)));
}

TEST(QuantizeBoth, pads_each_axis_where_that_is_asked_for) {
  const Matrix m = gaussian(DType::f32, 33, 70);
  QuantizeOptions o{.input = m.view(), .format = Format::mxfp4, .padding = Padding::zero};
  Both both(o);
  both.run(o);
  EXPECT_TRUE(same(both.rows, quantize(o)));
  o.axis = BlockAxis::rows;
  EXPECT_TRUE(same(both.columns, quantize(o)));
}

TEST(QuantizeBoth, refuses_an_axis_weights_and_lengths_that_are_no_multiple_of_the_block) {
  const Matrix m = gaussian(DType::f32, 32, 64);
  QuantizeOptions o{.input = m.view(), .format = Format::mxfp4, .axis = BlockAxis::rows};
  expect_refused(o, ErrorCode::invalid_argument, "both axes are written");
  o.axis = BlockAxis::cols;
  const std::vector<float> weights(64, 1.0f);
  o.weights = weights;
  expect_refused(o, ErrorCode::invalid_argument, "importance weights");
  o.weights = {};
  o.input.rows = 31;
  expect_refused(o, ErrorCode::invalid_argument, "31 elements along the block axis");
}

TEST(QuantizeBoth, refuses_buffers_of_the_wrong_size_by_name) {
  const Matrix m = gaussian(DType::f32, 32, 64);
  const QuantizeOptions o{.input = m.view(), .format = Format::mxfp4};
  Both both(o);
  try {
    quantize_both_into(o, both.rows.codes(), both.rows.scales(), both.columns.codes().subspan(1),
                       both.columns.scales());
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("column codes"), std::string::npos) << error.what();
  }
}

TEST(QuantizeBoth, refuses_non_finite_input_where_that_is_asked_for) {
  Matrix m = gaussian(DType::f32, 32, 64);
  QuantizeOptions o{.input = m.view(), .format = Format::mxfp4, .non_finite = NonFinite::refuse};
  Both both(o);
  both.run(o);  // finite
  std::vector<float> values(32 * 64, 1.0f);
  values[65] = std::numeric_limits<float>::quiet_NaN();
  o.input = {values.data(), DType::f32, 32, 64, 64};
  expect_refused(o, ErrorCode::bad_input, "row 1, column 1");
}

}  // namespace
}  // namespace microscale
