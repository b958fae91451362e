#include "checkpoint/finished_run.hpp"

#include <gtest/gtest.h>

#include "checkpoint/convert.hpp"
#include "checkpoint/journal.hpp"
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
  EXPECT_TRUE(again.already_done);
  EXPECT_TRUE(again.mended.empty());
  EXPECT_EQ(testing::read_folder(options_.output), before_);
}

TEST_F(FinishedRunTest, gets_back_what_was_lost) {
  const Names lost{"1_Pooling/config.json", "tokenizer.json", "model.safetensors.index.json",
                   "config.json"};
  for (const std::string& name : lost) fs::remove(options_.output / name);
  EXPECT_EQ(convert_model(options_).mended, lost);
  EXPECT_EQ(testing::read_folder(options_.output), before_);
}

TEST_F(FinishedRunTest, leaves_what_somebody_changed_alone) {
  testing::write_file(options_.output / "config.json", "{\"changed\": true}");
  EXPECT_TRUE(convert_model(options_).mended.empty());
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

}  // namespace
}  // namespace microscale
