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

TEST(Compare, a_text_needs_the_package) {
  const Folders folders;
  const Outcome outcome = microscale(
      {"compare", folders.quantized(), folders.quantized(), "--text", folders.quantized()});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.err.find("pip install 'microscale[transformers]'"), std::string::npos)
      << outcome.err;
}

TEST(Compare, holds_each_tensor_against_the_limit) {
  const TemporaryFolder folder;
  SmallModel original, other;
  const std::vector<float> large(4096, 100.0f), small(64, 1.0f);
  original.add_floats("large", {4096}, large);
  original.add_floats("small", {64}, small);
  other.add("large", StoredType::f16, {4096}, bytes_of(std::vector<std::uint16_t>(4096, 0x5641)));
  other.add_floats("small", {64}, std::vector<float>(64, 1.1f));
  original.write(folder / "a");
  other.write(folder / "b");
  const Outcome run = microscale(
      {"compare", (folder / "a").string(), (folder / "b").string(), "--max-mse", "0.5%"});
  EXPECT_EQ(run.code, 1);
  EXPECT_NE(run.err.find("--max-mse has failed: 1 tensor is above the limit: small with 1.0000 %"),
            std::string::npos)
      << run.err;
}

TEST(Compare, names_a_scale_that_was_not_applied_and_what_should_be_kept_first) {
  const TemporaryFolder folder;
  SmallModel original, other;
  const std::vector<float> values = gaussian(64 * 64, 3);
  std::vector<float> scaled = values;
  for (float& value : scaled) value *= 8241.0f;
  original.add_floats("a.weight", {64, 64}, values);
  other.add_floats("a.weight", {64, 64}, scaled);
  original.add_floats("model.layers.0.mlp.gate.weight", {64, 64}, values);
  other.add_quantized("model.layers.0.mlp.gate", Format::nvfp4, 64, 64, values);
  original.write(folder / "a");
  other.write(folder / "b");
  const std::vector<std::string> words{"compare", (folder / "a").string(), (folder / "b").string()};
  const Outcome run = microscale(words);
  EXPECT_EQ(run.out.find("Quantized, but of a kind that quantize keeps by default (1):\n  "
                         "model.layers.0.mlp.gate.weight (router): relative MSE 0."),
            0u)
      << run.out;
  EXPECT_NE(run.out.find("a.weight: 8241 times as large as the original: a global scale was not "
                         "applied"),
            std::string::npos)
      << run.out;
  EXPECT_NE(run.out.find("> 1000 %"), std::string::npos) << run.out;
  auto with_json = words;
  with_json.push_back("--json");
  const Json json = Json::parse(microscale(with_json).out);
  EXPECT_EQ(json["should_be_kept"][0]["reason"], "router");
  EXPECT_NEAR(json["constant_ratios"]["a.weight"].get<double>(), 8241, 0.1);
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
