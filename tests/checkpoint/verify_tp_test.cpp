#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "checkpoint/verify_support.hpp"

namespace microscale {
namespace {

using testing::SmallModel;
using testing::TemporaryFolder;
using testing::Texts;
using Json = nlohmann::ordered_json;

struct Answer {
  Texts findings, tiles;
  std::vector<int> works, unpadded;
  int largest = 0;
  std::vector<std::string> unknown;
};

Answer answer_of(const SmallModel& model, int degree) {
  const TemporaryFolder folder;
  model.write(folder.path());
  VerifyOptions options;
  options.tensor_parallel = degree;
  const VerifyReport report = verify_checkpoint(folder.path(), options);
  Answer answer;
  for (const Finding& finding : report.findings) {
    if (!finding.rule.starts_with("tp-")) continue;
    Texts& texts = finding.rule == "tp-tile" ? answer.tiles : answer.findings;
    texts.push_back(finding.rule + " | " + finding.message);
  }
  answer.works = report.parallel->works;
  answer.unpadded = report.parallel->unpadded;
  answer.largest = report.parallel->largest;
  answer.unknown = report.parallel->unknown;
  return answer;
}

SmallModel with_heads(Format format, int heads, int kv_heads) {
  SmallModel model = testing::small_llama(format);
  Json config = Json::parse(model.config);
  config["num_attention_heads"] = heads;
  config["num_key_value_heads"] = kv_heads;
  model.config = config.dump();
  return model;
}

TEST(VerifyTp, rows_are_cut_anywhere_and_columns_between_blocks) {
  // 64 x 64 everywhere: o_proj is not there, down_proj has 4 blocks of 16 or 2 of 32.
  const Answer nvfp4 = answer_of(testing::small_llama(Format::nvfp4), 4);
  EXPECT_EQ(nvfp4.findings, Texts());
  EXPECT_EQ(nvfp4.tiles.size(), 5u);  // 16 rows a part, of 64
  EXPECT_EQ(nvfp4.works, (std::vector<int>{1, 2, 4}));
  const Answer mxfp4 = answer_of(testing::small_llama(Format::mxfp4), 4);
  EXPECT_EQ(
      mxfp4.findings,
      Texts{"tp-cut | model.safetensors: 'model.layers.0.mlp.down_proj': cut into 4 it has 16 "
            "columns a part, which is no multiple of the mxfp4 block of 32; the largest degree "
            "up to 4 at which all layers stay whole is 2"});
  EXPECT_EQ(mxfp4.works, (std::vector<int>{1, 2}));
  EXPECT_EQ(mxfp4.largest, 2);
}

TEST(VerifyTp, heads_stay_whole_and_few_are_copied) {
  // 8 heads; 2 key-value heads serve 4 parts as copies, and not 3.
  EXPECT_EQ(answer_of(with_heads(Format::nvfp4, 8, 2), 4).findings, Texts());
  const Answer six = answer_of(with_heads(Format::nvfp4, 12, 4), 6);
  ASSERT_EQ(six.findings.size(), 6u);
  EXPECT_EQ(
      six.findings[2],
      "tp-cut | model.safetensors: 'model.layers.0.mlp.up_proj': its 64 rows cannot be cut into "
      "6 equal parts; the largest degree up to 6 at which all layers stay whole is 4");
  EXPECT_EQ(
      six.findings[3],
      "tp-cut | model.safetensors: 'model.layers.0.self_attn.k_proj': its 4 key-value heads "
      "cannot be shared among 6; the largest degree up to 6 at which all layers stay whole is 4");
  const Answer three = answer_of(with_heads(Format::nvfp4, 8, 2), 3);
  EXPECT_EQ(three.findings.size(), 6u);
  EXPECT_EQ(three.largest, 2);
}

TEST(VerifyTp, layers_of_unknown_role_are_told) {
  SmallModel model = testing::small_llama(Format::nvfp4);
  model.add_quantized("model.layers.0.mixer", Format::nvfp4, 128, 64, testing::gaussian(8192, 3));
  EXPECT_EQ(answer_of(model, 2).unknown, std::vector<std::string>{"model.layers.0.mixer"});
}

TEST(VerifyTp, is_not_asked_by_itself) {
  const TemporaryFolder folder;
  testing::small_llama(Format::mxfp4).write(folder.path());
  EXPECT_FALSE(verify_checkpoint(folder.path()).parallel.has_value());
}

// FP8 has scales of other shapes: a row's go with each part, a block's must stay whole.
TEST(VerifyTp, weights_of_other_containers_are_judged_too) {
  const auto with_scales = [](const std::string& module, std::vector<std::int64_t> scales) {
    SmallModel model;
    model.config = R"({"model_type": "small"})";
    std::int64_t count = 1;
    for (const std::int64_t side : scales) count *= side;
    model.add(module + ".weight", StoredType::f8_e4m3, {256, 256}, testing::Bytes(256 * 256, 0x38));
    model.add(module + ".weight_scale_inv", StoredType::f32, std::move(scales),
              testing::bytes_of(std::vector<float>(static_cast<std::size_t>(count), 0.5f)));
    return model;
  };
  const std::string up = "model.layers.0.mlp.up_proj", down = "model.layers.0.mlp.down_proj";
  EXPECT_EQ(answer_of(with_scales(up, {256, 1}), 4).findings, Texts());
  EXPECT_EQ(answer_of(with_scales(down, {256, 1}), 4).findings, Texts());
  EXPECT_EQ(answer_of(with_scales(up, {2, 2}), 2).findings, Texts());
  EXPECT_EQ(
      answer_of(with_scales(up, {2, 2}), 4).findings,
      Texts{"tp-cut | model.safetensors: '" + up +
            "': cut into 4 it has 64 rows a part, which is no multiple of the 128 that a "
            "scale holds for; the largest degree up to 4 at which all layers stay whole is 2"});
  EXPECT_EQ(answer_of(with_scales(down, {2, 2}), 4).findings,
            Texts{"tp-cut | model.safetensors: '" + down +
                  "': cut into 4 it has 64 columns a part, which is no multiple of the FP8 E4M3 "
                  "block of 128; the largest degree up to 4 at which all layers stay whole is 2"});
  SmallModel heads = with_scales("model.layers.0.self_attn.q_proj", {256, 1});
  heads.config = R"({"model_type": "small", "num_attention_heads": 2})";
  EXPECT_EQ(answer_of(heads, 4).largest, 2);
}

TEST(VerifyTp, of_a_dense_model_nothing_is_judged) {
  SmallModel model;
  model.config = R"({"model_type": "small"})";
  model.add_floats("model.layers.0.mlp.up_proj.weight", {64, 64}, testing::gaussian(4096, 1));
  EXPECT_EQ(answer_of(model, 2).works, std::vector<int>());
}

TEST(VerifyTp, parts_that_kernels_pad_are_a_warning) {
  SmallModel model;
  model.add_quantized("model.layers.0.mlp.down_proj", Format::nvfp4, 64, 256,
                      testing::gaussian(64 * 256, 3));
  const Answer four = answer_of(model, 4);
  EXPECT_EQ(four.works.size(), 5u);  // 1, 2, 4, 8, 16
  EXPECT_EQ(four.unpadded, (std::vector<int>{1, 2}));
  EXPECT_EQ(four.tiles,
            Texts{"tp-tile | model.safetensors: 'model.layers.0.mlp.down_proj': cut into 4 "
                  "it has 64 columns a part, which is no multiple of 128: kernels with tiles "
                  "of that size (Marlin's, among others) pad the part, or refuse it"});
}

}  // namespace
}  // namespace microscale
