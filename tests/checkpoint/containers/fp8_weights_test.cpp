#include <gtest/gtest.h>

#include "checkpoint/containers/coded_models.hpp"
#include "checkpoint/containers/containers.hpp"

namespace microscale {
namespace {

using testing::CodedModel;
using testing::fp8_llama;
using testing::Fp8Scheme;
using testing::TemporaryFolder;

constexpr const char* down_proj = "model.layers.0.mlp.down_proj";

QuantizedFolder opened(const CodedModel& coded, const TemporaryFolder& place) {
  coded.model.write(place.path());
  return take(open_quantized_folder(place.path()));
}

std::string description_of_down_proj(const QuantizedFolder& folder) {
  const LogicalTensor* tensor = folder.find(std::string(down_proj) + ".weight");
  return tensor && tensor->weight ? tensor->weight->facts().description : "nothing";
}

// The only problem of a model with one change.
std::string problem(const std::function<void(CodedModel&)>& change) {
  CodedModel coded = fp8_llama();
  change(coded);
  TemporaryFolder place;
  const QuantizedFolder folder = opened(coded, place);
  EXPECT_EQ(folder.unusable.size(), 1u);
  EXPECT_EQ(folder.weights.size(), 6u) << "the others are whole";
  return folder.unusable.empty() ? "" : folder.unusable[0].message;
}

TEST(Fp8Weights, blocks_have_scales_of_any_type_in_any_shard) {
  for (const StoredType type :
       {StoredType::f32, StoredType::bf16, StoredType::f16, StoredType::f8_e8m0}) {
    for (const bool elsewhere : {false, true}) {
      const CodedModel coded = fp8_llama({.type = type, .in_another_shard = elsewhere});
      TemporaryFolder place;
      const QuantizedFolder folder = opened(coded, place);
      testing::expect_values(folder, coded);
      EXPECT_EQ(description_of_down_proj(folder), "FP8 E4M3, one scale per 128 x 128 block");
      EXPECT_EQ(folder.weights[0]->facts().type,
                type == StoredType::f8_e8m0 ? StoredType::bf16 : StoredType::f32);
      EXPECT_EQ(folder.tensors.size(), 9u);
      EXPECT_EQ(folder.weights[0]->bytes(), folder.find(folder.weights[0]->name())->bytes());
    }
  }
}

TEST(Fp8Weights, scales_hold_for_a_tensor_a_row_or_blocks_of_any_size) {
  const std::vector<std::pair<Fp8Scheme, std::string>> cases{
      {{.name = "weight_scale", .block_rows = 0, .block_cols = 0}, "one scale per tensor"},
      {{.name = "weight_scale", .block_rows = 0, .block_cols = 0, .vector = true},
       "one scale per tensor"},
      {{.name = "weight_scale", .type = StoredType::bf16, .block_rows = 1, .block_cols = 0},
       "one scale per row"},
      {{.name = "weight_scale", .block_rows = 1, .block_cols = 0, .vector = true},
       "one scale per row"},
      {{.name = "scale", .block_rows = 64, .block_cols = 64}, "one scale per 64 x 64 block"},
      {{.name = "scale_weight", .block_rows = 0, .block_cols = 0, .vector = true},
       "one scale per tensor"},
      {{.name = "weight_scale", .type = StoredType::bf16, .block_rows = 1, .block_cols = 64},
       "one scale per 1 x 64 block"}};
  for (const auto& [scheme, words] : cases) {
    const CodedModel coded = fp8_llama(scheme);
    TemporaryFolder place;
    const QuantizedFolder folder = opened(coded, place);
    testing::expect_values(folder, coded);
    EXPECT_EQ(description_of_down_proj(folder), "FP8 E4M3, " + words);
  }
}

TEST(Fp8Weights, codes_may_be_e5m2) {
  const CodedModel coded = fp8_llama({.codes = StoredType::f8_e5m2});
  TemporaryFolder place;
  const QuantizedFolder folder = opened(coded, place);
  testing::expect_values(folder, coded);
  EXPECT_EQ(description_of_down_proj(folder), "FP8 E5M2, one scale per 128 x 128 block");
}

TEST(Fp8Weights, blocks_of_32_with_powers_of_two_are_mxfp8) {
  const CodedModel coded =
      fp8_llama({.name = "scale", .type = StoredType::f8_e8m0, .block_rows = 1, .block_cols = 32});
  TemporaryFolder place;
  const QuantizedFolder folder = opened(coded, place);
  testing::expect_values(folder, coded);
  EXPECT_EQ(folder.find(down_proj)->blocks()->format, Format::mxfp8_e4m3);
}

TEST(Fp8Weights, experts_in_one_tensor_have_scales_of_their_own) {
  CodedModel coded;
  testing::add_fp8(coded, "flat", 4 * 256, 128, {}, 5);  // four experts, one below the other
  CodedModel stacked;
  const std::string name = "model.layers.0.mlp.experts.gate_up_proj";
  stacked.model.add(name, StoredType::f8_e4m3, {4, 256, 128}, coded.model.at("flat.weight").bytes);
  stacked.model.add(name + "_scale_inv", StoredType::f32, {4, 2, 1},
                    coded.model.at("flat.weight_scale_inv").bytes);
  stacked.values[name] = coded.values["flat.weight"];
  TemporaryFolder place;
  const QuantizedFolder folder = opened(stacked, place);
  testing::expect_values(folder, stacked);
  EXPECT_EQ(folder.find(name)->shape, (std::vector<std::int64_t>{4, 256, 128}));
}

TEST(Fp8Weights, what_a_calibration_measured_goes_with_the_weight) {
  CodedModel coded = fp8_llama({.name = "weight_scale", .block_rows = 0, .block_cols = 0});
  const std::string name = down_proj;
  coded.model.add(name + ".input_scale", StoredType::f32, {}, testing::bytes_of(0.5f));
  coded.model.add("model.layers.0.self_attn.k_proj.k_scale", StoredType::f32, {},
                  testing::bytes_of(0.5f));
  TemporaryFolder place;
  const QuantizedFolder folder = opened(coded, place);
  const LogicalTensor* tensor = folder.find(name + ".weight");
  ASSERT_NE(tensor, nullptr);
  ASSERT_EQ(tensor->weight->facts().parts.size(), 3u);
  EXPECT_EQ(tensor->weight->facts().parts[2]->name(), name + ".input_scale");
  EXPECT_NE(folder.find("model.layers.0.self_attn.k_proj.k_scale"), nullptr)
      << "a scale of the cache is a tensor of its own";
}

TEST(Fp8Weights, scales_that_do_not_fit_are_named) {
  const std::string name = std::string(down_proj) + ".weight_scale_inv";
  EXPECT_NE(problem([&](CodedModel& coded) {
              coded.model.at(name) = {StoredType::f32, {3, 3}, testing::Bytes(36)};
            }).find("scales of F32 [3, 3] fit no blocks of the weight F8_E4M3 [320, 448]"),
            std::string::npos);
  EXPECT_NE(problem([&](CodedModel& coded) {
              coded.model.at(name) = {StoredType::f32, {5, 7}, testing::Bytes(140)};
            })
                .find("but config.json says blocks of 128 x 128, which the weight "
                      "F8_E4M3 [320, 448] has [3, 4] of"),
            std::string::npos);
  EXPECT_NE(problem([&](CodedModel& coded) {
              coded.model.at(name) = {StoredType::i32, {3, 4}, testing::Bytes(48)};
            }).find("scales of FP8 weights are F32, BF16, F16 or F8_E8M0, this is I32 [3, 4]"),
            std::string::npos);
  EXPECT_NE(problem([&](CodedModel& coded) {
              coded.model.add(std::string(down_proj) + ".weight_scale", StoredType::f32, {1},
                              testing::bytes_of(1.0f));
            }).find("so which of the scales counts is unclear"),
            std::string::npos);
}

TEST(Fp8Weights, without_a_scale_stay_what_they_are) {
  CodedModel coded = fp8_llama();
  coded.model.remove(std::string(down_proj) + ".weight_scale_inv");
  TemporaryFolder place;
  const QuantizedFolder folder = opened(coded, place);
  EXPECT_EQ(folder.weights.size(), 6u);
  EXPECT_FALSE(folder.find(down_proj)->coded());
}

}  // namespace
}  // namespace microscale
