#include "checkpoint/stray_weights.hpp"

#include <gtest/gtest.h>

#include "checkpoint/model_builder.hpp"

namespace microscale {
namespace {

using testing::random_tensor;
using testing::TemporaryFolder;
using testing::TestModel;
using testing::write_safetensors;
using Names = std::vector<std::string>;

TEST(StrayWeights, are_copied_byte_for_byte_with_their_layers_on_the_ignore_list) {
  TemporaryFolder folder;
  TestModel model;
  model.shards[0]["model.layers.0.self_attn.o_proj.weight"] =
      random_tensor(StoredType::bf16, {64, 64}, 1);
  model.write(folder / "in");
  write_safetensors(
      folder / "in/mtp.safetensors",
      {{"mtp.layers.0.mlp.down_proj.weight", random_tensor(StoredType::bf16, {64, 64}, 2)},
       {"mtp.norm.weight", random_tensor(StoredType::bf16, {64}, 3)}});
  write_safetensors(folder / "in/adapter_model.safetensors",
                    {{"base_model.model.layers.0.self_attn.o_proj.lora_A.weight",
                      random_tensor(StoredType::bf16, {8, 64}, 4)}});
  QuantizeModelOptions options;
  options.input = folder / "in";
  options.output = folder / "out";
  const ConversionPlan plan = quantize_model(options);
  for (const char* name : {"mtp.safetensors", "adapter_model.safetensors"}) {
    EXPECT_EQ(testing::read_file(folder / "out" / name), testing::read_file(folder / "in" / name));
  }
  EXPECT_EQ(plan.copied_files, (Names{"adapter_model.safetensors", "mtp.safetensors"}));
  const std::string config = testing::read_file(folder / "out/config.json");
  EXPECT_NE(config.find("\"mtp.layers.0.mlp.down_proj\""), std::string::npos) << config;
  EXPECT_EQ(config.find("lora_A"), std::string::npos) << config;
  EXPECT_TRUE(verify_model({.input = folder / "out", .threads = 1}).empty());
}

TEST(StrayWeights, that_are_quantized_already_are_refused_by_name) {
  TemporaryFolder folder;
  TestModel model;
  model.shards[0]["model.layers.0.self_attn.o_proj.weight"] =
      random_tensor(StoredType::bf16, {64, 64}, 1);
  model.write(folder / "in");
  write_safetensors(folder / "in/mtp.safetensors",
                    {{"mtp.fc.weight", random_tensor(StoredType::f8_e4m3, {64, 64}, 2)},
                     {"mtp.fc.weight_scale_inv", random_tensor(StoredType::f32, {1, 1}, 3)}});
  QuantizeModelOptions options;
  options.input = folder / "in";
  options.output = folder / "out";
  testing::expect_error(ErrorCode::bad_input,
                        "'mtp.safetensors' beside the model holds weights that are quantized "
                        "already: 'mtp.fc.weight",
                        [&] { quantize_model(options); });
  options.ignore = {"mtp.fc"};
  quantize_model(options);
}

TEST(StrayWeights, count_as_shards_unless_they_repeat_tensors) {
  TemporaryFolder folder;
  TestModel model;
  model.shards[0]["a.weight"] = random_tensor(StoredType::bf16, {64, 64}, 1);
  model.write(folder.path());
  write_safetensors(folder / "b.safetensors", {{"b", random_tensor(StoredType::bf16, {2}, 2)}});
  write_safetensors(folder / "c.safetensors",
                    {{"a.weight", random_tensor(StoredType::bf16, {64, 64}, 1)},
                     {"c", random_tensor(StoredType::bf16, {2}, 2)}});
  ModelFolder opened = take(open_model_folder(folder.path()));
  include_side_weights(opened);
  ASSERT_EQ(opened.shards.size(), 2u);
  EXPECT_TRUE(opened.shards[1].side);
  ASSERT_NE(opened.find("b"), nullptr);
  EXPECT_EQ(opened.shards[opened.find("b")->shard].name, "b.safetensors");
  EXPECT_EQ(opened.find("c"), nullptr);
  ASSERT_EQ(opened.strays.size(), 1u);
  EXPECT_EQ(opened.other_files, std::vector<std::filesystem::path>{"c.safetensors"});
}

TEST(StrayWeights, an_adapter_by_itself_is_no_model) {
  TemporaryFolder folder;
  write_safetensors(
      folder / "adapter_model.safetensors",
      {{"base_model.model.q_proj.lora_A.weight", random_tensor(StoredType::bf16, {16, 64}, 4)}});
  QuantizeModelOptions options;
  options.input = folder.path();
  options.output = folder.path().string() + "_out";
  testing::expect_error(ErrorCode::bad_input,
                        "is an adapter (LoRA), not a model; name its base model",
                        [&] { quantize_model(options); });
}

// By what they hold, whatever they are called.
TEST(StrayWeights, that_repeat_the_model_are_told_apart_by_content) {
  TemporaryFolder folder;
  TestModel model;
  model.shards[0]["a.weight"] = random_tensor(StoredType::bf16, {64, 64}, 1);
  model.write(folder.path());
  const auto one = [&](const char* file, const char* name, const testing::TestTensor& tensor) {
    write_safetensors(folder / file, {{name, tensor}});
  };
  one("copy.safetensors", "a.weight", random_tensor(StoredType::bf16, {64, 64}, 1));
  one("ema.safetensors", "a.weight", random_tensor(StoredType::bf16, {64, 64}, 2));
  one("half.safetensors", "a.weight", random_tensor(StoredType::f16, {64, 64}, 1));
  one("draft.safetensors", "a.weight", random_tensor(StoredType::bf16, {8, 64}, 1));
  one("consolidated.safetensors", "wq", random_tensor(StoredType::bf16, {64, 64}, 1));
  const ModelFolder opened = take(open_model_folder(folder.path()));
  std::map<std::string, std::string> reasons;
  for (const LeftOutFile& file : opened.left_out_files) reasons[file.path.string()] = file.reason;
  EXPECT_EQ(
      reasons,
      (std::map<std::string, std::string>{
          {"consolidated.safetensors", "the same weights under the names of Mistral's format"},
          {"copy.safetensors", "its tensors are in the model already"},
          {"ema.safetensors",
           "the model's tensors with other values: an average of the weights (EMA), or "
           "another version of the model"},
          {"half.safetensors", "the model's tensors in another element type"}}));
  ASSERT_EQ(opened.strays.size(), 1u);
  EXPECT_EQ(opened.strays[0].name, "draft.safetensors");
  // Called so, but something else by its size.
  one("consolidated.safetensors", "wq", random_tensor(StoredType::bf16, {8, 64}, 1));
  EXPECT_EQ(take(open_model_folder(folder.path())).strays.size(), 2u);
}

// Without it the output would seem to have lost a file.
TEST(StrayWeights, an_empty_file_of_a_numbered_set_is_taken_along) {
  TemporaryFolder folder;
  TestModel model;
  model.shards.resize(2);
  for (std::size_t i = 0; i < 2; ++i) {
    model.shards[i]["model.layers." + std::to_string(i) + ".self_attn.o_proj.weight"] =
        random_tensor(StoredType::bf16, {64, 64}, 1);
  }
  model.shards.emplace_back();
  model.config = R"({"model_type": "small"})";
  model.write(folder / "in");
  QuantizeModelOptions options;
  options.input = folder / "in";
  options.output = folder / "out";
  quantize_model(options);
  const char* empty = "model-00003-of-00003.safetensors";
  EXPECT_EQ(testing::read_file(folder / "out" / empty), testing::read_file(folder / "in" / empty));
  EXPECT_TRUE(verify_model({.input = folder / "out", .threads = 1}).empty());
}

// A copy of the model is left out with a reason that was looked at.
TEST(StrayWeights, reasons_say_what_the_values_are) {
  const auto times = [](float factor, StoredType type) {
    std::vector<float> values(64 * 64);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = factor * static_cast<float>(i % 7);
    return testing::tensor_of(type, {64, 64}, values);
  };
  const std::string name = "model.layers.0.self_attn.o_proj.weight";
  const auto reason = [&](const std::string& file, const std::string& tensor, float factor,
                          StoredType type) {
    TemporaryFolder folder;
    TestModel model;
    model.shards[0][name] = times(1, StoredType::bf16);
    model.write(folder / "in");
    write_safetensors(folder / "in" / file, {{tensor, times(factor, type)}});
    const ModelFolder opened = take(open_model_folder(folder / "in"));
    return opened.left_out_files.size() == 1 ? opened.left_out_files[0].reason : "";
  };
  constexpr StoredType bf16 = StoredType::bf16, f16 = StoredType::f16;
  EXPECT_EQ(reason("model.fp16.safetensors", name, 1, f16),
            "the model's tensors in another element type");
  EXPECT_EQ(reason("model.fp16.safetensors", name, 1.5f, f16),
            "the model's tensors with other values, in another element type: an average of the "
            "weights (EMA), or another version of the model");
  EXPECT_EQ(reason("ema.safetensors", name, 1.5f, bf16),
            "the model's tensors with other values: an average of the weights (EMA), or another "
            "version of the model");
  const std::string mistral = "layers.0.attention.wo.weight";
  EXPECT_EQ(reason("consolidated.safetensors", mistral, 1, bf16),
            "the same weights under the names of Mistral's format");
  EXPECT_NE(reason("consolidated.safetensors", mistral, 2, bf16).find("with other values"),
            std::string::npos);
}

TEST(StrayWeights, a_file_of_another_numbered_set_is_told) {
  TemporaryFolder folder;
  TestModel model;
  model.shards.resize(2);
  model.shards[0]["a.weight"] = random_tensor(StoredType::bf16, {4}, 1);
  model.shards[1]["b.weight"] = random_tensor(StoredType::bf16, {4}, 1);
  model.write(folder / "in");
  write_safetensors(folder / "in/model-00003-of-00003.safetensors",
                    {{"c.weight", random_tensor(StoredType::bf16, {4}, 1)}});
  const ModelFolder opened = take(open_model_folder(folder / "in"));
  ASSERT_EQ(opened.notices.size(), 1u);
  EXPECT_EQ(opened.notices[0].find("'model-00003-of-00003.safetensors' is by its name one of "
                                   "another number of files"),
            0u)
      << opened.notices[0];
}

}  // namespace
}  // namespace microscale
