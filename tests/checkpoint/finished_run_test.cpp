#include "checkpoint/finished_run.hpp"

#include <gtest/gtest.h>

#include <chrono>

#include "checkpoint/convert.hpp"
#include "checkpoint/journal.hpp"
#include "checkpoint/manifest.hpp"
#include "checkpoint/sample_model.hpp"

namespace microscale {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;
using Names = std::vector<std::string>;

class FinishedRunTest : public ::testing::Test {
 protected:
  FinishedRunTest() : options_(testing::options_for(folder_, Format::nvfp4)) {
    testing::sample_model().write(options_.input);
    quantize_model(options_);
    before_ = testing::read_folder(options_.output);
    options_.resume = true;
  }
  TemporaryFolder folder_;
  QuantizeModelOptions options_;
  std::map<std::string, std::string> before_;
};

TEST_F(FinishedRunTest, is_called_done_and_not_touched) {
  EXPECT_TRUE(looks_finished(options_));
  const Conversion again = convert_model(options_);
  EXPECT_TRUE(again.finished.done);
  EXPECT_TRUE(again.finished.hashes_checked);
  EXPECT_TRUE(again.finished.mended.empty());
  EXPECT_TRUE(again.finished.notes.empty());
  EXPECT_EQ(testing::read_folder(options_.output), before_);
}

TEST_F(FinishedRunTest, gets_back_what_was_lost) {
  const Names lost{"1_Pooling/config.json", "tokenizer.json", "model.safetensors.index.json",
                   "config.json"};
  for (const std::string& name : lost) fs::remove(options_.output / name);
  EXPECT_EQ(convert_model(options_).finished.mended, lost);
  EXPECT_EQ(testing::read_folder(options_.output), before_);
}

TEST_F(FinishedRunTest, leaves_what_somebody_changed_alone) {
  testing::write_file(options_.output / "config.json", "{\"changed\": true}");
  EXPECT_TRUE(convert_model(options_).finished.mended.empty());
  EXPECT_EQ(testing::read_file(options_.output / "config.json"), "{\"changed\": true}");
}

TEST_F(FinishedRunTest, of_other_weights_is_refused) {
  const auto refused = [&](const std::string& phrase) {
    testing::expect_error(ErrorCode::invalid_argument, phrase, [&] { convert_model(options_); });
  };
  options_.format = Format::mxfp4;
  refused(
      "is not the finished output of this one: 'model-00001-of-00002.safetensors' has another "
      "size; name another folder");
  options_.format = Format::nvfp4;
  fs::remove(options_.output / "model-00002-of-00002.safetensors");
  refused("'model-00002-of-00002.safetensors' is not there");
}

TEST_F(FinishedRunTest, of_other_options_is_refused) {
  options_.numerics.scale_rule = ScaleRule::nearest;
  testing::expect_error(ErrorCode::invalid_argument,
                        "option scale rule was search, now it is nearest",
                        [&] { convert_model(options_); });
}

// As a training run leaves it that saves under the same name: sizes and headers are the same.
TEST_F(FinishedRunTest, of_an_input_with_other_values_is_refused) {
  const fs::path file = options_.input / "model-00001-of-00002.safetensors";
  std::string bytes = testing::read_file(file);
  bytes.back() ^= 1;
  testing::write_file(file, bytes);
  testing::expect_error(ErrorCode::invalid_argument,
                        "input model-00001-of-00002.safetensors was of ",
                        [&] { convert_model(options_); });
}

TEST_F(FinishedRunTest, of_a_copy_of_the_input_is_the_same) {
  fs::copy(options_.input, folder_ / "copy", fs::copy_options::recursive);
  options_.input = folder_ / "copy";
  EXPECT_TRUE(convert_model(options_).finished.hashes_checked);
}

TEST_F(FinishedRunTest, that_was_spoiled_is_refused_by_the_name_of_the_tensor) {
  const std::string name = "model-00002-of-00002.safetensors";
  const ModelFolder model = take(open_model_folder(options_.output));
  const ModelTensor& tensor = *model.find("model.layers.0.self_attn.v_proj.weight_packed");
  std::string bytes = before_.at(name);
  bytes[tensor.entry->begin] ^= 1;
  testing::write_file(options_.output / name, bytes);
  testing::expect_error(ErrorCode::bad_input,
                        "'model.layers.0.self_attn.v_proj.weight_packed': its bytes were changed",
                        [&] { convert_model(options_); });
}

TEST_F(FinishedRunTest, names_texts_that_were_changed) {
  testing::write_file(options_.output / "tokenizer.json", "{}");
  EXPECT_EQ(convert_model(options_).finished.notes,
            Names{"'tokenizer.json' was changed since and stays as it is"});
  EXPECT_EQ(testing::read_file(options_.output / "tokenizer.json"), "{}");
}

TEST_F(FinishedRunTest, without_a_manifest_is_told_by_its_headers) {
  fs::remove(options_.output / "microscale_manifest.json");
  const FinishedRun finished = convert_model(options_).finished;
  EXPECT_TRUE(finished.done);
  EXPECT_FALSE(finished.hashes_checked);
}

TEST(LooksFinished, asks_for_a_folder_without_a_journal_that_holds_something) {
  TemporaryFolder folder;
  QuantizeModelOptions options;
  options.output = folder / "none";
  EXPECT_FALSE(looks_finished(options));
  options.output = folder.path();
  EXPECT_FALSE(looks_finished(options));
  testing::write_file(folder / "config.json", "{}");
  EXPECT_TRUE(looks_finished(options));
  testing::write_file(folder / std::string(journal_name), "{}\n");
  EXPECT_FALSE(looks_finished(options));
}

// Samples do not see every value, and the manifest has nothing else of the input.
TEST_F(FinishedRunTest, of_an_input_that_was_written_later_says_so) {
  const fs::path file = options_.input / "model-00001-of-00002.safetensors";
  fs::last_write_time(
      file, fs::last_write_time(options_.output / manifest_name) + std::chrono::seconds(10));
  const FinishedRun finished = convert_model(options_).finished;
  ASSERT_EQ(finished.notes.size(), 1u);
  EXPECT_EQ(finished.notes[0].find("'model-00001-of-00002.safetensors' of the input was written "
                                   "after this folder was: only samples of it were compared"),
            0u)
      << finished.notes[0];
}

TEST_F(FinishedRunTest, names_the_texts_that_it_would_write_otherwise) {
  testing::write_file(options_.output / "config.json", R"({"model_type": "llama"})");
  const FinishedRun finished = convert_model(options_).finished;
  ASSERT_EQ(finished.notes.size(), 1u);
  EXPECT_EQ(finished.notes[0],
            "'config.json' is not what this run would write, and stays as it is; remove it, and "
            "the same command writes it again");
}

// What an interrupted run has reserved is not asked for again.
TEST_F(FinishedRunTest, holds_what_is_finished_and_what_is_not) {
  const ModelPlan plan = take(make_model_plan(options_));
  const std::uint64_t whole = held_bytes(plan, options_);
  EXPECT_GE(whole, static_cast<std::uint64_t>(plan.summary.bytes_after));
  const fs::path shard = options_.output / "model-00001-of-00002.safetensors";
  fs::rename(shard, fs::path(shard) += ".partial");
  EXPECT_EQ(held_bytes(plan, options_), whole);
  fs::remove(fs::path(shard) += ".partial");
  EXPECT_LT(held_bytes(plan, options_), whole);
}

}  // namespace
}  // namespace microscale
