#include "checkpoint/verify_scales.hpp"

#include <gtest/gtest.h>

#include "checkpoint/containers/coded_models.hpp"
#include "checkpoint/model_builder.hpp"
#include "checkpoint/verify_support.hpp"

namespace microscale {
namespace {

using testing::bytes_of;
using testing::CodedModel;
using testing::findings_of;
using testing::fp8_llama;
using testing::Fp8Scheme;
using testing::Texts;

const std::string down = "model.layers.0.mlp.down_proj";  // [320, 448]

const Fp8Scheme per_row{.name = "weight_scale", .block_rows = 1, .block_cols = 0};
const Fp8Scheme per_tensor{.name = "weight_scale", .block_rows = 0, .block_cols = 0};

// config.json of compressed-tensors with one scale of that strategy.
std::string described_as(const std::string& strategy) {
  return R"({"model_type": "llama", "hidden_size": 320, "torch_dtype": "bfloat16",
    "quantization_config": {"quant_method": "compressed-tensors", "format": "float-quantized",
    "quantization_status": "compressed", "ignore": ["lm_head"], "config_groups": {"group_0": {
    "targets": ["Linear"], "weights": {"num_bits": 8, "type": "float", "symmetric": true,
    "strategy": ")" +
         strategy + R"("}}}}})";
}

void set_scale(CodedModel& coded, const std::string& name, std::size_t index, float value) {
  const testing::Bytes bytes = bytes_of(value);
  std::copy(bytes.begin(), bytes.end(),
            coded.model.at(name).bytes.begin() + static_cast<std::ptrdiff_t>(index * 4));
}

// Findings but for the one that says which description was not looked at.
Texts findings(const CodedModel& coded) {
  Texts found = findings_of(coded.model);
  std::erase_if(found, [](const std::string& text) {
    return text.starts_with("warning config-not-checked");
  });
  return found;
}

TEST(VerifyScales, right_ones_are_no_finding_in_any_container) {
  for (const Fp8Scheme& scheme : {Fp8Scheme(), per_row, per_tensor}) {
    EXPECT_EQ(findings(fp8_llama(scheme)), Texts()) << scheme.name;
  }
  EXPECT_EQ(findings(testing::gpt_oss_model()), Texts());
  EXPECT_EQ(findings(testing::deepseek_v4_model()), Texts());
  CodedModel rows = fp8_llama(per_row);
  rows.model.config = described_as("channel");
  EXPECT_EQ(findings_of(rows.model), Texts());
  CodedModel whole = fp8_llama(per_tensor);
  whole.model.config = described_as("tensor");
  EXPECT_EQ(findings_of(whole.model), Texts());
}

TEST(VerifyScales, a_lost_scale_or_lost_codes_are_named) {
  for (const Fp8Scheme& scheme : {Fp8Scheme(), per_row}) {
    const std::string scale = down + "." + scheme.name;
    CodedModel coded = fp8_llama(scheme);
    coded.model.remove(scale);
    EXPECT_EQ(findings(coded),
              Texts{"error missing-scale | model-1.safetensors: '" + down +
                    ".weight': its codes are FP8 but its scale (weight_scale, weight_scale_inv) is "
                    "missing; download or quantize the model again"});
  }
  CodedModel orphan = fp8_llama();
  orphan.model.remove(down + ".weight");
  const Texts found = findings(orphan);
  EXPECT_EQ(std::count(found.begin(), found.end(),
                       "error missing-codes | model-1.safetensors: '" + down +
                           ".weight_scale_inv': it is the scale of FP8 codes that are missing; "
                           "download the model again, or remove this tensor"),
            1);
}

TEST(VerifyScales, negative_ones_and_zeros_over_codes_are_errors_with_their_place) {
  const std::string blocks = down + ".weight_scale_inv", rows = down + ".weight_scale";
  CodedModel coded = fp8_llama();  // [3, 4] blocks
  set_scale(coded, blocks, 5, -0.01f);
  set_scale(coded, blocks, 7, -0.01f);
  EXPECT_EQ(
      findings(coded),
      Texts{"error scale-negative | model-1.safetensors: '" + blocks +
            "': row 128, column 128: the scale is -0.01, which turns the signs of the weight, "
            "and loaders expect none; download or quantize the model again (1 more in this "
            "tensor)"});
  coded = fp8_llama();
  set_scale(coded, blocks, 11, 0.0f);
  EXPECT_EQ(findings(coded),
            Texts{"error scale-zero | model-1.safetensors: '" + blocks +
                  "': row 256, column 384: the scale is 0 but codes under it are not 0, so their "
                  "values are lost; download or quantize the model again"});
  coded = fp8_llama(per_row);
  set_scale(coded, rows, 17, 0.0f);
  ASSERT_EQ(findings(coded).size(), 1u);
  EXPECT_NE(findings(coded)[0].find("row 17, column 0: the scale is 0"), std::string::npos);
  // Over codes that are 0 and -0 it loses nothing.
  auto& codes = coded.model.at(down + ".weight").bytes;
  std::fill(codes.begin() + 17 * 448, codes.begin() + 18 * 448, std::uint8_t{0x80});
  EXPECT_EQ(findings(coded), Texts());
}

TEST(VerifyScales, what_no_trained_weight_has_is_a_warning) {
  for (const auto& [scale, text] : {std::pair(1e-30f, "its largest value is 4.48e-28"),
                                    std::pair(1e5f, "its largest value is 4.48e+07")}) {
    CodedModel coded = fp8_llama(per_tensor);
    set_scale(coded, down + ".weight_scale", 0, scale);
    const Texts found = findings(coded);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].find("warning magnitude | model-1.safetensors: '" + down + ".weight': "), 0u)
        << found[0];
    EXPECT_NE(found[0].find(text), std::string::npos) << found[0];
  }
}

TEST(VerifyScales, another_strategy_than_config_json_says_is_an_error_for_all) {
  CodedModel coded = fp8_llama(per_tensor);
  coded.model.config = described_as("channel");
  Texts found = findings_of(coded.model);
  ASSERT_GE(found.size(), 7u);
  EXPECT_EQ(
      std::count(found.begin(), found.end(),
                 "error wrong-shape | model-1.safetensors: '" + down +
                     ".weight_scale': it is F32 [1, 1], one scale per tensor, but config.json "
                     "says one scale per row; make them agree"),
      1);
  // A square weight whose scales were laid down as columns.
  coded = fp8_llama(per_row);
  coded.model.config = described_as("channel");
  testing::add_fp8(coded, "model.layers.0.self_attn.o_proj", 320, 320, per_row, 9);
  coded.model.at("model.layers.0.self_attn.o_proj.weight_scale").shape = {1, 320};
  found = findings_of(coded.model);
  ASSERT_FALSE(found.empty());
  EXPECT_NE(
      found[0].find("it is F32 [1, 320], one scale per column, but config.json says one scale "
                    "per row; make them agree"),
      std::string::npos)
      << found[0];
}

TEST(VerifyScales, powers_of_two_that_are_no_normal_numbers_lose_their_block) {
  CodedModel coded = testing::gpt_oss_model();
  const std::string scales = "model.layers.0.mlp.experts.down_proj_scales";  // [3, 64, 3]
  coded.model.at(scales).bytes[3 * 70 + 1] = 0;
  EXPECT_EQ(
      findings(coded),
      Texts{"error scale-zero | model-2.safetensors: '" + scales +
            "': row 70, column 32: the scale is 5.877472e-39 but codes under it are not 0, so "
            "their values are lost; download or quantize the model again"});
  CodedModel v4 = testing::deepseek_v4_model();
  v4.model.at("layers.0.ffn.experts.1.w2.scale").bytes[9] = 0;
  ASSERT_EQ(findings(v4).size(), 1u);
  EXPECT_NE(
      findings(v4)[0].find("row 3, block 0: the scale is 2^-127, which kernels take for zero"),
      std::string::npos);
}

// What verify calls an error is neither decoded nor quantized again.
TEST(VerifyScales, quantize_and_dequantize_refuse_them) {
  CodedModel coded = fp8_llama();
  set_scale(coded, down + ".weight_scale_inv", 0, 0.0f);
  const testing::TemporaryFolder folder;
  coded.model.write(folder / "in");
  testing::expect_error(ErrorCode::bad_input, "row 0, column 0: the scale is 0 but codes", [&] {
    dequantize_model({.input = folder / "in", .output = folder / "out"});
  });
  QuantizeModelOptions options;
  options.input = folder / "in";
  options.output = folder / "out";
  testing::expect_error(ErrorCode::bad_input, "row 0, column 0: the scale is 0 but codes",
                        [&] { quantize_model(options); });
  EXPECT_FALSE(std::filesystem::exists(folder / "out"));
}

TEST(VerifyScales, fp8_layers_are_counted) {
  const testing::TemporaryFolder folder;
  fp8_llama().model.write(folder.path());
  EXPECT_EQ(verify_checkpoint(folder.path()).modules, 7);
}

}  // namespace
}  // namespace microscale
