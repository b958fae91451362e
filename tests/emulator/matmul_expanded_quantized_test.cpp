// Products of very many rows whose d is quantized by the kernel that makes it, on the emulated
// Hopper GPU: the bytes of quantizing the FP32 d, of every format, layout and epilogue.
#include <gtest/gtest.h>

#include <limits>

#include "cuda/quantize/choose.hpp"
#include "cuda/device/kernel_images.hpp"
#include "support/executed_kernels.hpp"
#include "support/hopper_products.hpp"

namespace microscale::emulator {
namespace {

constexpr Format formats[] = {Format::mxfp4, Format::nvfp4, Format::mxfp8_e4m3, Format::mxfp8_e5m2};
constexpr Layout layouts[] = {Layout::row_major, Layout::tiled_128x4};

/// What becomes of d.
struct Quantized {
  Format format;
  Layout layout = Layout::row_major;
  Numerics numerics{};
  float global = 0.37f;
};
Quantized as(Format format, Layout layout = Layout::row_major) {
  Quantized q{.format = format, .layout = layout};
  q.numerics.scale_rule = format == Format::nvfp4 ? ScaleRule::nearest : ScaleRule::floor;
  return q;
}

std::vector<std::uint8_t> from_device(const void* data, std::size_t bytes) {
  std::vector<std::uint8_t> host(bytes);
  device().copy_to_host(host.data(), data, static_cast<std::int64_t>(bytes), nullptr);
  return host;
}

/// Codes and scales of all matrices, by the kernel and by quantizing the FP32 d on the host.
::testing::AssertionResult same_as_quantizing(const Product& p, const Quantized& q) {
  const BlockShape shape{p.m, p.n(), q.format, BlockAxis::cols, q.layout};
  const auto matrices = static_cast<std::size_t>(p.matrices),
             codes = static_cast<std::size_t>(shape.code_bytes()),
             scales = static_cast<std::size_t>(shape.scale_bytes());
  Buffers memory;
  cuda::Product call = operands_of(p, memory);
  call.output = output_of(p, memory, Matrix(DType::f32, 0, 0));
  call.output.d_type = static_cast<std::int32_t>(DType::f32);
  const QuantizedOutput out{
      .format = q.format,
      .numerics = q.numerics,
      .layout = q.layout,
      .global_scale = GlobalScale::on_device(memory.put(&q.global, 1)),
      .codes = {memory.put(std::vector<std::uint8_t>(matrices * codes, untouched)),
                matrices * codes},
      .scales = {memory.put(std::vector<std::uint8_t>(matrices * scales, untouched)),
                 matrices * scales}};
  call.quantized = &out;
  if (!cuda::expanded::quantizes(call)) return ::testing::AssertionFailure() << "is not taken";
  run_expanded(call, memory);
  const auto got_codes = from_device(out.codes.data(), out.codes.size()),
             got_scales = from_device(out.scales.data(), out.scales.size());

  Product fp32 = p;
  fp32.expanded = true, fp32.d_type = DType::f32;
  const Matrix d = computed(fp32);
  for (std::size_t i = 0; i < matrices; ++i) {
    BlockTensor wanted(shape);
    QuantizeOptions options{.input = d.view(), .format = q.format, .numerics = q.numerics};
    options.input.data = d.bytes.data() + i * static_cast<std::size_t>(p.m * p.n() * 4);
    options.input.rows = p.m;
    options.layout = q.layout;
    if (q.format == Format::nvfp4) options.global_scale = q.global;
    quantize_into(options, wanted.codes(), wanted.scales(), {.backend = Backend::reference});
    const auto differs = [&](const char* what, std::span<const std::uint8_t> want,
                             const std::vector<std::uint8_t>& got) {
      for (std::size_t at = 0; at < want.size(); ++at)
        if (want[at] != got[i * want.size() + at])
          return std::string(what) + " byte " + std::to_string(at) + " of " +
                 std::to_string(want.size()) + " of matrix " + std::to_string(i) + " is " +
                 std::to_string(got[i * want.size() + at]) + ", wanted " + std::to_string(want[at]);
      return std::string();
    };
    for (const std::string& difference :
         {differs("scale", std::as_const(wanted).scales(), got_scales),
          differs("code", std::as_const(wanted).codes(), got_codes)})
      if (!difference.empty())
        return ::testing::AssertionFailure()
               << info(q.format).name << (q.layout == Layout::tiled_128x4 ? " tiled: " : " rows: ")
               << difference;
  }
  return ::testing::AssertionSuccess();
}

class MatmulExpandedQuantized : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda::kernel_images().empty())
      GTEST_SKIP() << "this build carries no kernels: it was made without nvcc";
  }
};

// Whole tiles and the rests of them, rows and columns of padding, several tiles to a cluster; words
// of scales, and single bytes where rows of scales do not begin at words.
TEST_F(MatmulExpandedQuantized, gives_the_bytes_of_quantizing_fp32) {
  for (const Format format : formats)
    for (const Layout layout : layouts)
      for (const std::int64_t n : {544, 512, 96}) {
        SCOPED_TRACE(n);
        EXPECT_TRUE(same_as_quantizing({.a = blocks(Format::mxfp4, n == 544 ? 300 : 21, 64, 3),
                                        .b = blocks(Format::mxfp8_e4m3, n, 64),
                                        .m = n == 544 ? 300 : 21,
                                        .alpha = 0x1.5p-7f},
                                       as(format, layout)));
      }
  EXPECT_TRUE(executed_all(device(), "sm_90a", {"matmul_expanded_bf16_to_"}));
}

TEST_F(MatmulExpandedQuantized, takes_fp16_elements_and_fp8) {
  for (const Format format : formats)
    for (const Layout layout : layouts) {
      EXPECT_TRUE(same_as_quantizing({.a = blocks(Format::nvfp4, 40, 64, 3),
                                      .b = blocks(Format::nvfp4, 288, 64),
                                      .m = 40,
                                      .a_globals = {0.125f},
                                      .b_globals = {0.0625f}},
                                     as(format, layout)));
      for (const std::int64_t n : {512, 416})  // 192 columns a tile
        EXPECT_TRUE(same_as_quantizing({.a = blocks(Format::mxfp4, 130, 128, 3),
                                        .b = blocks(Format::mxfp4, n, 128),
                                        .m = 130,
                                        .fp8 = true,
                                        .alpha = 0x1p-7f},
                                       as(format, layout)))
            << n;
    }
  EXPECT_TRUE(
      executed_all(device(), "sm_90a", {"matmul_expanded_f16_to_", "matmul_expanded_fp8_to_"}));
}

TEST_F(MatmulExpandedQuantized, finishes_gates_and_biases_first) {
  for (const Format format : formats)
    for (const bool fp8 : {false, true}) {
      Product p{.a = blocks(Format::mxfp4, 70, 128, 3),
                .b = blocks(Format::mxfp4, 224, 128, 5),
                .m = 70,
                .fp8 = fp8,
                .up = blocks(Format::mxfp4, 224, 128, 6),
                .gelu = fp8,
                .alpha = 0x1p-5f,
                .bias = test::gaussian(DType::bf16, 1, 224, 7, 1.0f),
                .up_bias = test::gaussian(DType::f32, 1, 224, 8, 1.0f)};
      for (const Layout layout : layouts)
        EXPECT_TRUE(same_as_quantizing(p, as(format, layout))) << fp8;
      p.up.reset(), p.up_bias.reset();
      EXPECT_TRUE(same_as_quantizing(p, as(format))) << fp8;
    }
}

TEST_F(MatmulExpandedQuantized, has_scales_of_each_matrix_of_a_batch) {
  for (const Format format : formats)
    for (const Layout layout : layouts)
      for (const bool gated : {false, true}) {
        Product p{.a = blocks(Format::mxfp4, 3 * 19, 64, 3),
                  .b = blocks(Format::mxfp4, 3 * 160, 64),
                  .m = 19,
                  .matrices = 3};
        if (gated) p.up = blocks(Format::mxfp4, 3 * 160, 64, 9);
        EXPECT_TRUE(same_as_quantizing(p, as(format, layout))) << gated;
      }
}

// Products that are all 0, plus a bias that is all there is to d.
Product with_values(const std::vector<float>& values) {
  const auto n = static_cast<std::int64_t>(values.size());
  Matrix bias(DType::f32, 1, n);
  for (std::int64_t i = 0; i < n; ++i) bias.set(0, i, values[static_cast<std::size_t>(i)]);
  return {.a = Side(Matrix(DType::bf16, 1, 32)),
          .b = Side(BlockTensor(BlockShape{n, 32, Format::mxfp4})),
          .m = 1,
          .bias = std::move(bias)};
}

std::vector<Numerics> choices(Format format) {
  std::vector<Numerics> all;
  for (const ScaleRule rule : scale_rules(format)) {
    Numerics n{.scale_rule = rule};
    if (cuda::kernel_mode(format, n) != cuda::KernelMode::plain) continue;
    all.push_back(n);
    n.nan = NanPolicy::drop, n.zero_code = ZeroCode::positive;
    all.push_back(n);
    n.inf = InfPolicy::nan_block;
    all.push_back(n);
  }
  return all;
}

// Every rule and policy on values of every magnitude: ties of the codes and one unit beside them,
// thresholds of the rules, zeros, subnormals, infinities and NaN.
TEST_F(MatmulExpandedQuantized, quantizes_any_value_under_any_rule) {
  const float infinity = std::numeric_limits<float>::infinity(),
              nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> values;
  const auto fill_block = [&] {
    while (values.size() % 32 != 0) values.push_back(0.0f);
  };
  for (const int power : {-146, -127, 0, 127}) {
    for (const float largest : {1.0f, 1.25f, 1.5f, 1.75f, 1.875f, 1.9375f})
      for (const int step : {-1, 0, 1}) {
        float top = std::ldexp(largest, power);
        if (step != 0) top = std::nextafter(top, step > 0 ? infinity : 0.0f);
        values.push_back(top);
        for (const float tie : {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f})
          for (const int near : {-1, 0, 1}) {
            float x = std::ldexp(tie, power - 2);
            if (near != 0) x = std::nextafter(x, near > 0 ? infinity : 0.0f);
            values.push_back(values.size() % 3 == 0 ? -x : x);
          }
        fill_block();
      }
  }
  for (const float special : {infinity, -infinity, nan, -nan}) {
    for (int i = 0; i < 32; ++i)
      values.push_back(i == 5 ? special : 0.125f * static_cast<float>(i));
    for (int i = 0; i < 32; ++i) values.push_back(i == 20 ? special : i == 21 ? nan : 0.0f);
  }
  values.resize(values.size() + 32);
  const Product p = with_values(values);
  for (const Format format : formats)
    for (const Numerics& numerics : choices(format))
      for (const float global : format == Format::nvfp4
                                    ? std::vector<float>{0.37f, 0x1p-126f, 0x1p100f}
                                    : std::vector<float>{1.0f})
        EXPECT_TRUE(
            same_as_quantizing(p, {.format = format, .numerics = numerics, .global = global}))
            << to_string(numerics.scale_rule) << " nan " << static_cast<int>(numerics.nan)
            << " inf " << static_cast<int>(numerics.inf) << " global " << global;
  for (const Format format : formats) {  // -0 all over
    Product zeros = with_values(std::vector<float>(32));
    zeros.bias.reset(), zeros.alpha = -1.0f;
    for (const Numerics& numerics : choices(format))
      EXPECT_TRUE(same_as_quantizing(zeros, {.format = format, .numerics = numerics}));
  }
}

// Whole tiles, as accumulators: with zeros, and with what only the long way takes.
TEST_F(MatmulExpandedQuantized, quantizes_whole_tiles_under_any_rule) {
  Matrix plain = test::gaussian(DType::bf16, 48, 64, 4, 1.0f);
  for (int i = 0; i < 64; ++i) plain.set(3, i, 0.0f);
  Matrix special = plain;
  special.set(2, 9, std::numeric_limits<float>::infinity());
  special.set(20, 5, std::numeric_limits<float>::quiet_NaN());
  for (const Format format : formats)
    for (const Numerics& numerics : choices(format))
      for (const bool with_special : {false, true})
        for (const float alpha : {0x1.3p-3f, -0x1p-122f, 0x1p122f}) {
          if (numerics.zero_code == ZeroCode::positive && alpha != 0x1.3p-3f) continue;
          const Product p{.a = Side(with_special ? special : plain),
                          .b = blocks(Format::nvfp4, 256, 64, 7),
                          .m = 48,
                          .alpha = alpha};
          const float global = alpha < 0 ? 0x1p-126f : alpha > 1 ? 0x1p118f : 0.004f;
          EXPECT_TRUE(
              same_as_quantizing(p, {.format = format, .numerics = numerics, .global = global}))
              << to_string(numerics.scale_rule) << " alpha " << alpha << with_special;
        }
}

TEST_F(MatmulExpandedQuantized, gives_the_same_bytes_in_any_order_of_warps_and_copies) {
  const LaunchOptions before = device().options;
  for (const auto& [schedule, completion] :
       {std::pair{Schedule::reverse, Completion::eager}, {Schedule::random, Completion::random}}) {
    device().options.schedule = schedule;
    device().options.completion = completion;
    EXPECT_TRUE(same_as_quantizing(
        {.a = blocks(Format::mxfp4, 270, 256, 3), .b = blocks(Format::nvfp4, 320, 256), .m = 270},
        as(Format::nvfp4, Layout::tiled_128x4)));
  }
  device().options = before;
}

}  // namespace
}  // namespace microscale::emulator
