#include <fmt/format.h>
#include <gtest/gtest.h>

#include "checkpoint/verify_support.hpp"
#include "checkpoint/weight_reader.hpp"

namespace microscale {
namespace {

using testing::bytes_of;
using testing::findings_of;
using testing::SmallModel;
using testing::Texts;

const std::string down = "model.layers.0.mlp.down_proj";
const std::string scales = down + ".weight_scale";

TEST(VerifyValues, nvfp4_scales_must_be_finite) {
  SmallModel model = testing::small_llama(Format::nvfp4);
  model.at(scales).bytes[4 * 3 + 2] = 0x7F;  // four blocks a row
  model.at(scales).bytes[4 * 9] = 0xFF;
  EXPECT_EQ(
      findings_of(model),
      Texts{"error scale-not-finite | model.safetensors: '" + scales +
            "': row 3, block 2: the scale is NaN (0x7F), so the whole block is; quantize the model "
            "again (1 more in this tensor)"});
}

TEST(VerifyValues, nvfp4_scales_must_not_be_negative) {
  SmallModel model = testing::small_llama(Format::nvfp4);
  model.at(scales).bytes[255] |= 0x80;
  const std::string byte = fmt::format("0x{:02X}", model.at(scales).bytes[255]);
  EXPECT_EQ(findings_of(model),
            Texts{"error scale-negative | model.safetensors: '" + scales +
                  "': row 63, block 3: the scale is "
                  "negative (" +
                  byte + "), and loaders expect none; quantize the model again"});
}

TEST(VerifyValues, nvfp4_scales_are_zero_only_over_zero_codes) {
  SmallModel model = testing::small_llama(Format::nvfp4);
  auto& codes = model.at(down + ".weight_packed").bytes;
  model.at(scales).bytes[5] = 0;
  std::fill(codes.begin() + 5 * 8, codes.begin() + 6 * 8, std::uint8_t{0x80});  // -0 and +0
  EXPECT_EQ(findings_of(model), Texts());
  codes[5 * 8 + 7] = 0x10;
  EXPECT_EQ(findings_of(model), Texts{"error scale-zero | model.safetensors: '" + scales +
                                      "': row 1, block 1: the scale is zero but codes of the block "
                                      "are not, so their values are "
                                      "lost; quantize the model again"});
}

TEST(VerifyValues, mx_scales_must_not_be_nan) {
  for (const Format format : {Format::mxfp4, Format::mxfp8_e4m3}) {
    SmallModel model = testing::small_llama(format);
    model.at(scales).bytes[0] = 110;  // 2^-17 is a number
    model.at(scales).bytes[7] = 255;
    EXPECT_EQ(
        findings_of(model),
        Texts{
            "error scale-not-finite | model.safetensors: '" + scales +
            "': row 3, block 1: the scale is NaN (0xFF), so the whole block is; quantize the model "
            "again"});
  }
}

TEST(VerifyValues, mx_scales_far_from_those_around_them_are_warned_of) {
  for (const Format format : {Format::mxfp4, Format::mxfp8_e4m3}) {
    SmallModel model = testing::small_llama(format);
    model.at(scales).bytes[4] ^= 0x40;  // about 2^-70
    const Texts findings = findings_of(model);
    ASSERT_EQ(findings.size(), 1u);
    EXPECT_EQ(findings[0].find("warning scale-outlier | model.safetensors: '" + scales +
                               "': row 2, block 0: the scale, 2^-"),
              0u)
        << findings[0];
    EXPECT_NE(findings[0].find("more than 2^19 times smaller than those of the blocks around it"),
              std::string::npos);
  }
}

TEST(VerifyValues, mx_scales_that_are_no_normal_numbers_lose_their_block) {
  for (const Format format : {Format::mxfp4, Format::mxfp8_e4m3}) {
    SmallModel model = testing::small_llama(format);
    model.at(scales).bytes[5] = 0;  // two blocks a row
    EXPECT_EQ(
        findings_of(model),
        Texts{"error scale-zero | model.safetensors: '" + scales +
              "': row 2, block 1: the scale is 2^-127, which kernels take for zero, but codes "
              "of the block are not, so their values are lost; quantize the model again"});
    const bool mxfp4 = format == Format::mxfp4;
    auto& codes = model.at(down + (mxfp4 ? ".weight_packed" : ".weight")).bytes;
    const std::ptrdiff_t block = mxfp4 ? 16 : 32;
    std::fill(codes.begin() + 5 * block, codes.begin() + 6 * block,
              static_cast<std::uint8_t>(mxfp4 ? 0x08 : 0x80));
    EXPECT_EQ(findings_of(model), Texts()) << "0 and -0";
  }
}

// Weights below every normal number: what quantize makes of them is no damage.
TEST(VerifyValues, a_manifest_vouches_for_scales_that_kernels_take_for_zero) {
  for (const Format format : {Format::nvfp4, Format::mxfp4, Format::mxfp8_e4m3}) {
    SmallModel model;
    model.config = R"({"model_type": "llama"})";
    model.add_floats(down + ".weight", {64, 64}, std::vector<float>(64 * 64, 1e-39f));
    const testing::TemporaryFolder folder;
    model.write(folder / "in");
    QuantizeModelOptions options;
    options.input = folder / "in";
    options.output = folder / "out";
    options.format = format;
    quantize_model(options);
    const VerifyReport report =
        verify_checkpoint(folder / "out", {.threads = 1, .source = folder / "in"});
    EXPECT_EQ(report.errors(), 0) << info(format).name;
  }
}

TEST(VerifyValues, mxfp8_codes_must_not_be_nan) {
  SmallModel model = testing::small_llama(Format::mxfp8_e4m3);
  model.at(down + ".weight").bytes[64 * 2 + 33] = 0xFF;
  EXPECT_EQ(findings_of(model),
            Texts{"error code-not-finite | model.safetensors: '" + down +
                  ".weight': row 2, column 33: the code is NaN (0xFF); quantize the model again"});
}

TEST(VerifyValues, a_global_scale_upside_down_is_suspected) {
  SmallModel model = testing::small_llama(Format::nvfp4);
  const float g = nvfp4_global_scale(0.125f);
  model.at(down + ".weight_global_scale").bytes = bytes_of(g);
  const Texts texts = findings_of(model);
  ASSERT_EQ(texts.size(), 1u);
  EXPECT_TRUE(texts[0].starts_with("warning magnitude | model.safetensors: '" + down +
                                   ".weight_global_scale': weights may be as large as "))
      << texts[0];
  EXPECT_NE(texts[0].find("may be stored as its reciprocal"), std::string::npos);
}

TEST(VerifyValues, dense_values_should_be_finite) {
  SmallModel model = testing::small_llama(Format::nvfp4);
  model.at("lm_head.weight").bytes[(64 * 5 + 9) * 4 + 3] = 0x7F;
  model.at("lm_head.weight").bytes[(64 * 5 + 9) * 4 + 2] = 0x80;
  EXPECT_EQ(
      findings_of(model),
      Texts{
          "warning not-finite | model.safetensors: 'lm_head.weight': row 5, column 9: the value is "
          "NaN or infinite; check the original model"});
}

TEST(VerifyValues, places_are_right_beyond_the_first_piece_at_any_number_of_threads) {
  SmallModel model;
  const std::int64_t cols = 4096, rows = piece_elements / cols * 2 + 3;
  testing::Bytes codes(static_cast<std::size_t>(rows * cols / 2), 0x22);
  testing::Bytes bytes(static_cast<std::size_t>(rows * cols / 16), 0x38);
  for (const std::int64_t block : {200 * 256 + 5, 129 * 256 + 7, 130 * 256}) {
    if (block < static_cast<std::int64_t>(bytes.size()))
      bytes[static_cast<std::size_t>(block)] = 0x7F;
  }
  model.add("m.weight_packed", StoredType::u8, {rows, cols / 2}, codes);
  model.add("m.weight_scale", StoredType::f8_e4m3, {rows, cols / 16}, bytes);
  model.add_floats("m.weight_global_scale", {1}, {4096.0f});
  testing::TemporaryFolder folder;
  model.write(folder.path());
  const Texts wanted{
      "error scale-not-finite | model.safetensors: 'm.weight_scale': row 129, block 7: the "
      "scale is NaN (0x7F), so the whole block is; quantize the model again (1 more in this "
      "tensor)"};
  EXPECT_EQ(findings_of(folder / "model.safetensors", 1), wanted);
  EXPECT_EQ(findings_of(folder / "model.safetensors", 3), wanted);
}

}  // namespace
}  // namespace microscale
