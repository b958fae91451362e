#include "cuda/quantize/choose.hpp"

#include <gtest/gtest.h>

namespace microscale::cuda {
namespace {

template <class Args>
std::string name_of(const Entry<Args>& entry) {
  return std::string(std::string_view(entry.name));
}

TEST(QuantizeChoice, nearest_even_takes_a_fast_kernel_where_one_read_decides) {
  EXPECT_EQ(kernel_mode(Format::mxfp4, {.scale_rule = ScaleRule::rceil}), KernelMode::plain);
  EXPECT_EQ(kernel_mode(Format::mxfp4, {.scale_rule = ScaleRule::search}), KernelMode::search);
  EXPECT_EQ(kernel_mode(Format::nvfp4, {.scale_rule = ScaleRule::nearest}), KernelMode::plain);
  EXPECT_EQ(kernel_mode(Format::nvfp4, {.scale_rule = ScaleRule::four_over_six}),
            KernelMode::general);
  EXPECT_EQ(kernel_mode(Format::nvfp4,
                        {.scale_rule = ScaleRule::nearest, .rounding = Rounding::stochastic}),
            KernelMode::general);
}

TEST(QuantizeChoice, searches_of_rows_know_4_over_6) {
  for (const ScaleRule rule : {ScaleRule::four_over_six, ScaleRule::four_over_six_mae}) {
    EXPECT_EQ(row_kernel_mode(Format::nvfp4, {.scale_rule = rule}), KernelMode::search);
    EXPECT_EQ(
        row_kernel_mode(Format::nvfp4, {.scale_rule = rule, .rounding = Rounding::toward_zero}),
        KernelMode::general);
  }
  EXPECT_EQ(row_kernel_mode(Format::nvfp4, {.scale_rule = ScaleRule::full}), KernelMode::general);
  EXPECT_EQ(row_kernel_mode(Format::mxfp4, {.scale_rule = ScaleRule::rceil}), KernelMode::plain);
}

TEST(QuantizeChoice, names_say_format_type_mode_and_layout) {
  EXPECT_EQ(name_of(quantize_kernel(Format::mxfp8_e5m2, DType::bf16, KernelMode::plain,
                                    Layout::tiled_128x4)),
            "quantize_mxfp8_e5m2_bf16_plain_tiled");
  EXPECT_EQ(
      name_of(quantize_kernel(Format::nvfp4, DType::f16, KernelMode::general, Layout::row_major)),
      "quantize_nvfp4_f16_general_rows");
  EXPECT_EQ(name_of(columns_kernel(Format::mxfp4, DType::f32, KernelMode::plain, true)),
            "quantize_both_mxfp4_f32_plain");
  EXPECT_EQ(name_of(columns_kernel(Format::nvfp4, DType::f16, KernelMode::general, false)),
            "quantize_columns_nvfp4_f16_general");
  EXPECT_EQ(name_of(dequantize_kernel(Format::mxfp4, DType::f32)), "dequantize_mxfp4_f32");
  EXPECT_EQ(name_of(abs_max_kernel(DType::f32)), "abs_max_f32");
  EXPECT_EQ(name_of(fused_kernel("rms_norm", Format::nvfp4, DType::bf16, KernelMode::search)),
            "fused_rms_norm_nvfp4_bf16_search");
}

TEST(QuantizeChoice, numerics_become_numbers) {
  QuantizeArgs args{};
  set_numerics(args, Format::mxfp4,
               {.scale_rule = ScaleRule::even,
                .rounding = Rounding::stochastic,
                .nan = NanPolicy::drop,
                .inf = InfPolicy::nan_block,
                .zero_code = ZeroCode::positive,
                .seed = 9});
  EXPECT_EQ(args.scale_addend, 1 << 21);
  EXPECT_EQ(args.emax, 2);
  EXPECT_EQ(args.nan_propagates, 0);
  EXPECT_EQ(args.inf_is_nan, 1);
  EXPECT_EQ(args.zero_is_positive, 1);
  EXPECT_EQ(args.seed, 9u);
  EXPECT_EQ(args.rounding, static_cast<std::int32_t>(Rounding::stochastic));
}

}  // namespace
}  // namespace microscale::cuda
