// What a conversion leaves behind whose input is wrong in a way that only its values show.
#include <gtest/gtest.h>

#include "checkpoint/containers/coded_models.hpp"
#include "checkpoint/convert.hpp"
#include "checkpoint/journal.hpp"
#include "sample_model.hpp"

namespace microscale {
namespace {

namespace fs = std::filesystem;
using testing::options_for;
using testing::TemporaryFolder;
using testing::TestModel;

// What is wrong with the input is mended outside; then the same command must be taken again.
TEST(ConvertWrongInput, leaves_nothing_where_the_input_was_wrong_and_no_file_finished) {
  TestModel model;
  std::vector<float> values(40 * 64, 1.0f), weights(64, 1.0f);
  weights[3] = -1.0f;
  model.shards[0]["a.o_proj.weight"] = testing::tensor_of(StoredType::f32, {40, 64}, values);
  const TemporaryFolder folder;
  model.write(folder / "in");
  const auto write_importance = [&] {
    testing::write_safetensors(folder / "importance.safetensors",
                               {{"a.o_proj", testing::tensor_of(StoredType::f32, {64}, weights)}});
  };
  write_importance();
  QuantizeModelOptions options = options_for(folder, Format::nvfp4);
  options.importance = folder / "importance.safetensors";
  EXPECT_THROW(convert_model(options), Error);
  EXPECT_FALSE(fs::exists(options.output));
  fs::create_directory(options.output);
  EXPECT_THROW(convert_model(options), Error);
  EXPECT_TRUE(fs::is_empty(options.output)) << "a folder that was there stays";
  weights[3] = 1.0f;
  write_importance();
  EXPECT_NO_THROW(convert_model(options));
}

TEST(ConvertWrongInput, keeps_what_was_finished_before_it_was_met) {
  TestModel model;
  model.shards.resize(2);
  std::vector<float> values(40 * 64, 1.0f);
  model.shards[0]["a.o_proj.weight"] = testing::tensor_of(StoredType::f32, {40, 64}, values);
  values[5] = std::numeric_limits<float>::quiet_NaN();
  model.shards[1]["b.o_proj.weight"] = testing::tensor_of(StoredType::f32, {40, 64}, values);
  const TemporaryFolder folder;
  model.write(folder / "in");
  QuantizeModelOptions options = options_for(folder, Format::mxfp4, 1);
  EXPECT_THROW(convert_model(options), Error);
  EXPECT_TRUE(fs::exists(options.output / "model-00001-of-00002.safetensors"));
  EXPECT_TRUE(fs::exists(options.output / journal_name));
}

// One worker finishes the first of two files before it meets the block in the second. Codes that
// are only moved are soon moved again, and --exact would be refused again.
TEST(ConvertWrongInput, leaves_nothing_of_codes_that_were_moved) {
  TemporaryFolder folder;
  testing::CodedModel coded = testing::gpt_oss_model();
  coded.model.at("model.layers.0.mlp.experts.gate_up_proj_scales").bytes[0] = 90;
  coded.model.at("model.layers.0.mlp.experts.gate_up_proj_blocks").bytes[0] = 0x33;
  coded.model.add_floats("model.layers.0.self_attn.q_proj.bias", {64}, std::vector<float>(64, 1.0f),
                         "model-0.safetensors");
  coded.model.write(folder / "in");
  testing::write_file(folder / "in" / "more" / "notes.txt", "of the model");
  ConvertModelOptions options;
  options.input = folder / "in";
  options.output = folder / "out";
  options.container = Container::modelopt;
  options.exact = true;
  options.threads = 1;
  bool finished = false;
  const auto look = [&](std::int64_t, std::int64_t, std::string_view) {
    for (const auto& entry : fs::directory_iterator(options.output)) {
      finished |= entry.path().extension() == ".safetensors";
    }
    return true;
  };
  EXPECT_THROW(convert_model(options, look), Error);
  EXPECT_TRUE(finished) << "no file was finished before";
  EXPECT_FALSE(fs::exists(options.output));
}

}  // namespace
}  // namespace microscale
