// compare: what it prints and how it ends.
#include <gtest/gtest.h>

#include "tools/checkpoint_folders.hpp"

namespace microscale::testing {
namespace {

TEST(Compare, measures_and_holds_against_a_limit) {
  const Folders folders;
  ASSERT_EQ(
      microscale({"dequantize", folders.quantized(), "-o", folders.dense(), "--dtype", "bf16"})
          .code,
      0);
  const Outcome text = microscale({"compare", folders.dense(), folders.quantized()});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_NE(text.out.find("Worst by relative MSE:"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("3 tensors are identical"), std::string::npos) << text.out;
  // BF16 has 8 bits of significand: an error of 1e-6 or so.
  EXPECT_EQ(microscale({"compare", folders.dense(), folders.quantized(), "--max-mse", "1e-4"}).code,
            0);
  const Outcome over =
      microscale({"compare", folders.dense(), folders.quantized(), "--max-mse", "1e-9", "--json"});
  EXPECT_EQ(over.code, 1);
  const Json json = Json::parse(over.out);
  EXPECT_EQ(json["within_max_mse"], false);
  EXPECT_EQ(json["identical"], 3);
  EXPECT_EQ(json["worst"].size(), 6u);
}

TEST(Compare, says_which_side_holds_what_is_no_number) {
  const Folders folders;
  const Outcome outcome =
      microscale({"compare", folders.quantized(), folders.broken(), "--max-mse", "1"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.out.find(std::string(down) + ".weight: the other holds NaN or infinity"),
            std::string::npos)
      << outcome.out;
  EXPECT_EQ(outcome.out.find("nan"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.err.find("--max-mse has failed: 1 tensor holds NaN or infinity"),
            std::string::npos)
      << outcome.err;
}

TEST(Compare, passes_only_what_is_whole) {
  const Folders folders;
  const auto failures = [&](const SmallModel& model) {
    const TemporaryFolder folder;
    model.write(folder.path());
    const Outcome run = microscale(
        {"compare", folders.quantized(), folder.path().string(), "--max-mse", "1", "--json"});
    EXPECT_EQ(run.code, 1) << run.out;
    const Json json = Json::parse(run.out);
    EXPECT_EQ(json["within_max_mse"], false);
    return json["max_mse_failures"].dump();
  };
  SmallModel missing = small_llama(Format::nvfp4), undecodable = missing, shaped = missing,
             different = missing;
  missing.remove("model.norm.weight");
  EXPECT_EQ(failures(missing), "[\"1 tensor of the original is missing in the other\"]");
  undecodable.remove(std::string(down) + ".weight_scale");
  const std::string two = failures(undecodable);
  EXPECT_NE(two.find("1 tensor of the original is missing in the other"), two.npos) << two;
  EXPECT_NE(two.find("1 tensor or module cannot be decoded"), two.npos) << two;
  shaped.add_floats("model.norm.weight", {8, 8}, std::vector<float>(64, 1.0f));
  EXPECT_EQ(failures(shaped), "[\"1 tensor has another shape\"]");
  different.add("model.norm.weight", StoredType::i8, {64}, Bytes(64, 1));
  EXPECT_EQ(failures(different), "[\"1 tensor differs without a figure\"]");
}

}  // namespace
}  // namespace microscale::testing
