#include "checkpoint/output_folder.hpp"

#include <gtest/gtest.h>

#include <set>

#include "sample_model.hpp"

namespace microscale {
namespace {

namespace fs = std::filesystem;
using testing::fails_with;
using testing::options_for;
using testing::sample_model;
using testing::succeeds;
using testing::TemporaryFolder;
using testing::write_file;

class OutputFolder : public ::testing::Test {
 protected:
  void SetUp() override { sample_model().write(folder / "in"); }

  Fingerprint fingerprint(const QuantizeModelOptions& options) const {
    return take(fingerprint_of(take(make_model_plan(options)), options));
  }

  TemporaryFolder folder;
};

TEST_F(OutputFolder, fingerprint_sees_every_option_that_changes_a_byte) {
  const QuantizeModelOptions plain = options_for(folder, Format::mxfp4);
  std::vector<QuantizeModelOptions> variants(15, plain);
  variants[1].format = Format::mxfp8_e4m3;
  variants[2].numerics.scale_rule = ScaleRule::rceil;
  variants[3].numerics.rounding = Rounding::stochastic;
  variants[4].numerics.zero_code = ZeroCode::positive;
  variants[5].numerics.compat = Compat::torchao;
  variants[6].numerics.seed = 1;
  variants[7].include = {"*_proj"};
  variants[8].ignore = {"*.o_proj"};
  variants[9].ignore = {"*.o_proj", "*.norm"};
  variants[10].activations = Activations::dynamic;
  variants[11].format = Format::nvfp4;
  variants[12].use = {{"*.o_proj", WeightFormat::fp8}};
  variants[14].format = Format::mxfp8_e4m3;
  variants[14].container = Container::modelopt;
  variants[13].use = {{"*.o_proj", WeightFormat::mxfp8}};
  std::set<Fingerprint> seen;
  for (const QuantizeModelOptions& variant : variants)
    EXPECT_TRUE(seen.insert(fingerprint(variant)).second);
  QuantizeModelOptions same = plain;
  same.threads = 7;
  same.max_memory /= 2;
  same.output = folder / "elsewhere";
  EXPECT_EQ(fingerprint(same), fingerprint(plain));
}

TEST_F(OutputFolder, fingerprint_sees_the_numbers_of_input_scales) {
  QuantizeModelOptions options = options_for(folder, Format::nvfp4);
  options.ignore = {"*.mlp.*", "*.k_proj", "*.q_proj", "*.v_proj"};
  options.input_scales = folder / "x.json";
  const auto with = [&](const std::string& number) {
    testing::write_file(options.input_scales,
                        "{\"" + testing::attention + "o_proj\":" + number + "}");
    return fingerprint(options);
  };
  EXPECT_EQ(with("1"), with("1.0"));
  EXPECT_NE(with("1"), with("1.5"));
}

TEST_F(OutputFolder, fingerprint_sees_every_change_of_the_input) {
  const QuantizeModelOptions options = options_for(folder, Format::mxfp4);
  const Fingerprint before = fingerprint(options);
  EXPECT_EQ(fingerprint(options), before);
  const fs::path shard = folder / "in/model-00001-of-00002.safetensors";
  const auto time = fs::last_write_time(shard);
  fs::last_write_time(shard, time + std::chrono::seconds(1));
  EXPECT_NE(fingerprint(options), before);
  fs::last_write_time(shard, time);
  EXPECT_EQ(fingerprint(options), before);
  write_file(folder / "in/config.json", R"({"model_type": "llama", "hidden_size": 65})");
  EXPECT_NE(fingerprint(options), before);
}

TEST_F(OutputFolder, copy_makes_folders_and_leaves_no_partial_file) {
  std::vector<std::uint8_t> buffer(7);
  write_file(folder / "a", "more than seven bytes");
  EXPECT_TRUE(succeeds(copy_into_place(folder / "a", folder / "x/y/b", buffer)));
  EXPECT_EQ(testing::read_file(folder / "x/y/b"), "more than seven bytes");
  EXPECT_EQ(testing::read_folder(folder / "x").size(), 1u);
  EXPECT_TRUE(fails_with(copy_into_place(folder / "absent", folder / "c", buffer), "cannot open"));
  EXPECT_FALSE(fs::exists(folder / "c"));
}

TEST_F(OutputFolder, report_takes_the_place_of_no_file_of_the_model) {
  const QuantizeModelOptions options = options_for(folder, Format::mxfp4);
  const auto check = [&](const fs::path& report) {
    return check_report_place(take(make_model_plan(options)), options, report);
  };
  for (const char* report : {"page.html", "out/page.html"}) {
    EXPECT_TRUE(succeeds(check(folder / report))) << report;
  }
  for (const char* report : {"in/page.html", "in/model-00001-of-00002.safetensors", "in"}) {
    EXPECT_TRUE(fails_with(check(folder / report), "is of the input, which is never written to"))
        << report;
  }
  for (const char* report :
       {"out/model-00002-of-00002.safetensors", "out/model-00002-of-00002.safetensors.partial",
        "out/model.safetensors.index.json", "out/config.json", "out/tokenizer.json",
        "out/1_Pooling", "out/../out/.microscale-journal"}) {
    EXPECT_TRUE(fails_with(check(folder / report), "is of the output itself")) << report;
  }
  EXPECT_TRUE(fails_with(check(folder / "out"), "is where the output folder will be"));
  EXPECT_TRUE(fails_with(check(folder / "absent/page.html"), "its folder does not exist"));
  EXPECT_TRUE(fails_with(check(folder / "out/"), "is where the output folder will be"));
}

TEST_F(OutputFolder, report_does_not_reach_the_input_by_links) {
  QuantizeModelOptions options = options_for(folder, Format::mxfp4);
  options.input = folder / "snapshots/one";
  sample_model().write(options.input);
  const fs::path shard = options.input / "model-00001-of-00002.safetensors";
  fs::create_directory(folder / "blobs");
  fs::rename(shard, folder / "blobs/0123");
  fs::create_symlink(folder / "blobs/0123", shard);
  const ModelPlan plan = take(make_model_plan(options));
  fs::create_symlink(shard, folder / "page.html");
  for (const char* report : {"blobs/0123", "page.html"}) {
    EXPECT_TRUE(fails_with(check_report_place(plan, options, folder / report), "is of the input"))
        << report;
  }
  EXPECT_TRUE(succeeds(check_report_place(plan, options, folder / "blobs/page.html")));
}

TEST_F(OutputFolder, single_file_may_be_converted_beside_itself) {
  EXPECT_TRUE(succeeds(
      check_output_place(folder / "in/model-00001-of-00002.safetensors", folder / "in/out")));
  EXPECT_FALSE(check_output_place(folder / "in/model-00001-of-00002.safetensors", folder / "in"));
  EXPECT_TRUE(succeeds(check_output_place(folder / "in", folder / "in2")));
}

}  // namespace
}  // namespace microscale
