// The fused operations on a host: the bytes of quantize_into of the FP32 matrix, and what they
// refuse.
#include "microscale/fused.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "microscale/error.hpp"
#include "microscale/quantize.hpp"
#include "reference/producers.hpp"
#include "support/matrices.hpp"

namespace microscale {
namespace {

constexpr float scale = 0.01f;

QuantizedOutput into(BlockTensor& tensor, const Numerics& numerics) {
  QuantizedOutput output{
      .format = tensor.shape().format, .numerics = numerics, .layout = tensor.shape().layout};
  if (output.format == Format::nvfp4) output.global_scale = scale;
  output.codes = tensor.codes();
  output.scales = tensor.scales();
  return output;
}

// `fused(output, context)` against the quantizer on `values`, every format, layout and a few rules.
template <class Fused>
void expect_bytes_of(const test::Matrix& values, Fused&& fused) {
  for (const FormatInfo& format : all_formats())
    for (Layout layout : {Layout::row_major, Layout::tiled_128x4})
      for (ScaleRule rule : {scale_rules(format.format)[0], scale_rules(format.format)[2]})
        for (Rounding rounding : {Rounding::nearest_even, Rounding::stochastic}) {
          const Numerics numerics{.scale_rule = rule, .rounding = rounding, .seed = 11};
          const BlockShape shape{values.rows, values.cols, format.format, BlockAxis::cols, layout};
          BlockTensor want(shape), got(shape), reference(shape);
          QuantizeOptions options{.input = values.view(),
                                  .format = format.format,
                                  .numerics = numerics,
                                  .layout = layout};
          if (format.format == Format::nvfp4) options.global_scale = scale;
          quantize_into(options, want.codes(), want.scales());
          fused(into(got, numerics), Context{});
          fused(into(reference, numerics), Context{.backend = Backend::reference, .threads = 1});
          const auto same = [](std::span<const std::uint8_t> a, std::span<const std::uint8_t> b) {
            return std::equal(a.begin(), a.end(), b.begin(), b.end());
          };
          EXPECT_TRUE(same(want.codes(), got.codes()) && same(want.scales(), got.scales()))
              << format.name << ' ' << to_string(rule) << ' ' << to_string(rounding);
          EXPECT_TRUE(same(want.codes(), reference.codes()) &&
                      same(want.scales(), reference.scales()))
              << format.name << ' ' << to_string(rule) << ", one thread of the reference";
        }
}

TEST(Fused, silu_mul_gives_the_bytes_of_the_unfused_matrix) {
  test::Matrix gate = test::gaussian(DType::bf16, 301, 352, 1, 3.0f);
  const test::Matrix up = test::gaussian(DType::bf16, 301, 352, 2, 1.0f);
  gate.set(3, 40, NAN);
  gate.set(4, 41, INFINITY);
  gate.set(5, 42, -INFINITY);
  test::Matrix values(DType::f32, 301, 352);
  silu_mul_rows({gate.view(), up.view(), {}}, 0, 301,
                reinterpret_cast<float*>(values.bytes.data()));
  expect_bytes_of(values, [&](const QuantizedOutput& output, const Context& context) {
    silu_mul_quantize_into({gate.view(), up.view(), output}, context);
  });
}

TEST(Fused, rms_norm_gives_the_bytes_of_the_unfused_matrix_and_the_sum) {
  const test::Matrix x = test::gaussian(DType::f16, 257, 320, 3, 4.0f),
                     w = test::gaussian(DType::f16, 1, 320, 4, 1.0f),
                     residual = test::gaussian(DType::f16, 257, 320, 5, 4.0f);
  test::Matrix values(DType::f32, 257, 320), wanted_sum(DType::f16, 257, 320);
  RmsNormOptions options{.input = x.view(),
                         .weight = w.bytes.data(),
                         .residual = residual.view(),
                         .sum = wanted_sum.mutable_view(),
                         .output = {}};
  rms_norm_rows(options, 0, 257, reinterpret_cast<float*>(values.bytes.data()));
  expect_bytes_of(values, [&](const QuantizedOutput& output, const Context& context) {
    test::Matrix sum = residual;  // written in place of the residual
    RmsNormOptions call = options;
    call.residual = sum.view();
    call.sum = sum.mutable_view();
    call.output = output;
    rms_norm_quantize_into(call, context);
    EXPECT_EQ(sum.bytes, wanted_sum.bytes);
  });
}

TEST(Fused, rms_norm_without_a_quantizer_rounds_the_same_matrix_once) {
  for (const DType type : {DType::bf16, DType::f16, DType::f32}) {
    const test::Matrix x = test::gaussian(type, 257, 336, 3, 4.0f),
                       w = test::gaussian(type, 1, 336, 4, 1.0f),
                       residual = test::gaussian(type, 257, 336, 5, 4.0f);
    for (const bool added : {false, true}) {
      test::Matrix wanted_sum(type, 257, 336), values(DType::f32, 257, 336), wanted(type, 257, 336);
      RmsNormOptions options{.input = x.view(), .weight = w.bytes.data(), .output = {}};
      if (added) options.residual = residual.view(), options.sum = wanted_sum.mutable_view();
      rms_norm_rows(options, 0, 257, reinterpret_cast<float*>(values.bytes.data()));
      for (std::int64_t i = 0; i < 257 * 336; ++i)
        wanted.set(i / 336, i % 336, values.at(i / 336, i % 336));
      for (const Backend backend : available_backends()) {
        test::Matrix normed(type, 257, 336), sum(type, 257, 336);
        if (added) options.sum = sum.mutable_view();
        rms_norm_into(options, normed.mutable_view(), {.backend = backend});
        EXPECT_EQ(normed.bytes, wanted.bytes) << to_string(type) << ' ' << to_string(backend);
        if (added) {
          EXPECT_EQ(sum.bytes, wanted_sum.bytes) << to_string(type);
        }
      }
    }
  }
}

TEST(Fused, hadamard_gives_the_bytes_of_the_unfused_matrix) {
  const test::Matrix x = test::gaussian(DType::f32, 131, 256, 6, 1.0f);
  for (int order : {16, 128}) {
    HadamardOptions options{.input = x.view(), .order = order, .output = {}};
    options.negated = {0x12345678u, 0x9ABCDEF0u, 1u, 0x80000000u};
    test::Matrix values(DType::f32, 131, 256);
    hadamard_rows(options, 0, 131, reinterpret_cast<float*>(values.bytes.data()));
    expect_bytes_of(values, [&](const QuantizedOutput& output, const Context& context) {
      HadamardOptions call = options;
      call.output = output;
      hadamard_quantize_into(call, context);
    });
  }
}

TEST(Fused, an_empty_matrix_is_fine) {
  BlockTensor tensor(BlockShape{0, 64, Format::mxfp4});
  const TensorView none{nullptr, DType::bf16, 0, 64, 64};
  silu_mul_quantize_into({none, none, into(tensor, {})});
  hadamard_quantize_into({none, 32, {}, into(tensor, {})});
}

class FusedErrors : public ::testing::Test {
 protected:
  template <class Call>
  static void expect_error(const std::string& words, Call&& call,
                           ErrorCode code = ErrorCode::invalid_argument) {
    try {
      call();
      ADD_FAILURE() << "no error; expected: " << words;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  }
  test::Matrix a = test::gaussian(DType::bf16, 4, 64), b = test::gaussian(DType::bf16, 4, 64);
  BlockTensor tensor{BlockShape{4, 64, Format::mxfp4}};
  QuantizedOutput output = into(tensor, {});
};

TEST_F(FusedErrors, operands_must_agree) {
  TensorView up = b.view();
  up.rows = 3;
  expect_error("up is 3 x 64 bf16, the input 4 x 64 bf16", [&] {
    silu_mul_quantize_into({a.view(), up, output});
  });
  up = b.view();
  up.dtype = DType::f16;
  expect_error("they must agree", [&] { silu_mul_quantize_into({a.view(), up, output}); });
  up = b.view();
  up.row_stride = 63;
  expect_error("row_stride is 63", [&] { silu_mul_quantize_into({a.view(), up, output}); });
}

TEST_F(FusedErrors, a_residual_needs_a_place_for_the_sum) {
  RmsNormOptions options{.input = a.view(), .residual = b.view(), .output = output};
  expect_error("belong together", [&] { rms_norm_quantize_into(options); });
  options.sum = b.mutable_view();
  options.sum.row_stride = 72;
  expect_error("another row_stride", [&] { rms_norm_quantize_into(options); });
  options.sum = b.mutable_view();
  options.epsilon = -1.0f;
  expect_error("epsilon is -1", [&] { rms_norm_quantize_into(options); });
}

TEST_F(FusedErrors, a_norm_alone_checks_its_result) {
  const RmsNormOptions options{.input = a.view(), .output = {}};
  test::Matrix normed(DType::bf16, 3, 64), odd(DType::bf16, 4, 24);
  expect_error("the result is 3 x 64 bf16, the input 4 x 64 bf16",
               [&] { rms_norm_into(options, normed.mutable_view()); });
  expect_error("24 columns; they must be a multiple of 16",
               [&] { rms_norm_into({.input = odd.view(), .output = {}}, odd.mutable_view()); });
  expect_error(
      "backend cuda has no such operation",
      [&] { rms_norm_into(options, b.mutable_view(), {.backend = Backend::cuda}); },
      ErrorCode::unsupported);
}

TEST_F(FusedErrors, hadamard_orders_are_four_and_divide_the_columns) {
  expect_error("order 8", [&] { hadamard_quantize_into({a.view(), 8, {}, output}); });
  expect_error("64 columns are no multiple of the order 128", [&] {
    hadamard_quantize_into({a.view(), 128, {}, output});
  });
}

TEST_F(FusedErrors, the_output_is_checked_as_quantize_checks_it) {
  output.codes = output.codes.first(output.codes.size() - 1);
  expect_error("codes has 127 bytes", [&] { hadamard_quantize_into({a.view(), 32, {}, output}); });
  output = into(tensor, {.scale_rule = ScaleRule::nearest});
  expect_error("no scale rule nearest", [&] {
    hadamard_quantize_into({a.view(), 32, {}, output});
  });
  output = into(tensor, {});
  output.global_scale = 2.0f;
  expect_error("global scale 2 for mxfp4, which has none", [&] {
    hadamard_quantize_into({a.view(), 32, {}, output});
  });
  BlockTensor nvfp4(BlockShape{4, 64, Format::nvfp4});
  output = into(nvfp4, {});
  output.global_scale = {};
  expect_error("pass global_scale", [&] { hadamard_quantize_into({a.view(), 32, {}, output}); });
  output.global_scale = -1.0f;
  expect_error("not a positive normal number", [&] {
    hadamard_quantize_into({a.view(), 32, {}, output});
  });
  output = into(nvfp4, numerics_for(Compat::transformer_engine, Format::nvfp4));
  expect_error(
      "profile of another tool",
      [&] {
        hadamard_quantize_into({a.view(), 32, {}, output});
      },
      ErrorCode::unsupported);
  TensorView narrow = a.view();
  narrow.cols = 48;
  output = into(tensor, {});
  expect_error("no multiple of mxfp4's block", [&] {
    silu_mul_quantize_into({narrow, narrow, output});
  });
}

}  // namespace
}  // namespace microscale
