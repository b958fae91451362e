#include "checkpoint/verify_model.hpp"

#include <gtest/gtest.h>

#include "checkpoint/verify_support.hpp"

namespace microscale {
namespace {

using testing::findings_of;
using testing::SmallModel;
using testing::TemporaryFolder;
using testing::Texts;

TEST(VerifyModel, finds_nothing_wrong_with_whole_models) {
  for (const Format format : {Format::nvfp4, Format::mxfp4, Format::mxfp8_e4m3}) {
    TemporaryFolder folder;
    testing::small_llama(format).write(folder.path());
    const VerifyReport report = verify_checkpoint(folder.path());
    EXPECT_EQ(report.findings, Findings()) << info(format).name;
    EXPECT_TRUE(report.readable);
    EXPECT_EQ(report.modules, 6);
    EXPECT_EQ(report.tensors, format == Format::nvfp4 ? 21 : 15);
    EXPECT_EQ(verify_model({folder.path()}), Texts());
  }
}

TEST(VerifyModel, finds_nothing_wrong_with_a_dense_model_or_a_single_file) {
  SmallModel model;
  model.add_floats("a.weight", {2, 2}, {1, 2, 3, 4});
  model.config = R"({"model_type": "a"})";
  TemporaryFolder folder;
  model.write(folder.path());
  EXPECT_EQ(findings_of(folder.path()), Texts());
  testing::small_llama(Format::nvfp4).write(folder / "quantized");
  EXPECT_EQ(findings_of(folder / "quantized" / "model.safetensors"), Texts());
}

TEST(VerifyModel, wants_a_config) {
  SmallModel model = testing::small_llama(Format::nvfp4);
  model.config.clear();
  EXPECT_EQ(findings_of(model), Texts{"error no-config | config.json: missing, so no loader knows "
                                      "what the tensors are; copy it "
                                      "from the original model or convert that again"});
}

TEST(VerifyModel, wants_a_format_in_metadata) {
  SmallModel model = testing::small_llama(Format::nvfp4);
  model.metadata = {{"made_by", "somebody"}};
  EXPECT_EQ(findings_of(model),
            Texts{"error metadata-format | model.safetensors: its metadata has no \"format\" of "
                  "pt, tf, flax "
                  "or mlx, so transformers refuses the file; add \"format\": \"pt\""});
  model.metadata = {};
  EXPECT_EQ(findings_of(model), Texts());
}

TEST(VerifyModel, reports_what_unfinished_runs_left) {
  SmallModel model = testing::small_llama(Format::nvfp4);
  model.files["model-2.safetensors.partial"] = "half";
  EXPECT_EQ(findings_of(model), Texts{"error unfinished | model-2.safetensors.partial: an "
                                      "unfinished file of an earlier run; run "
                                      "that again to its end, or remove the file"});
  model.files = {{".microscale-journal", "{}"}};
  EXPECT_EQ(
      findings_of(model),
      Texts{
          "error unfinished | .microscale-journal: the run that wrote this folder did not finish; "
          "finish it (quantize --resume) or remove the folder"});
}

TEST(VerifyModel, reports_a_safetensors_file_beside_the_model) {
  SmallModel model = testing::small_llama(Format::nvfp4);
  model.files["empty.safetensors"] = testing::safetensors_file("{}");
  EXPECT_EQ(findings_of(model), Texts());
  const testing::StoredTensor& norm = model.at("model.norm.weight");
  model.files["again.safetensors"] = testing::safetensors_file(
      R"({"model.norm.weight": {"dtype": "F32", "shape": [64], "data_offsets": [0, 256]}})",
      {reinterpret_cast<const char*>(norm.bytes.data()), norm.bytes.size()});
  EXPECT_EQ(
      findings_of(model),
      Texts{"warning stray-file | again.safetensors: no part of the model (its tensors are in "
            "the model already), but loaders that read every .safetensors file read it too; "
            "move it elsewhere"});
}

TEST(VerifyModel, reports_side_files_that_were_not_downloaded) {
  SmallModel model = testing::small_llama(Format::nvfp4);
  model.files["tokenizer.model"] = "version https://git-lfs.github.com/spec/v1\n";
  EXPECT_EQ(findings_of(model),
            Texts{"warning lfs-pointer | tokenizer.model: a Git LFS pointer in place of the file "
                  "itself; fetch that with `git lfs pull`"});
}

TEST(VerifyModel, holds_one_file_by_itself_against_no_config) {
  SmallModel model = testing::small_llama(Format::nvfp4);
  model.add_floats("model.extra.weight", {4}, {1, 2, 3, 4}, "model-2.safetensors");
  TemporaryFolder folder;
  model.write(folder.path());
  const VerifyReport report = verify_checkpoint(folder / "model-2.safetensors", {.threads = 1});
  EXPECT_TRUE(report.readable);
  EXPECT_TRUE(report.findings.empty());
}

TEST(VerifyModel, reports_every_broken_file_of_a_folder_that_cannot_be_opened) {
  SmallModel model = testing::small_llama(Format::nvfp4);
  model.add_floats("other", {1}, {1.0f}, "model-2.safetensors");
  model.add_floats("third", {1}, {1.0f}, "model-3.safetensors");
  TemporaryFolder folder;
  model.write(folder.path());
  for (const char* name : {"model.safetensors", "model-2.safetensors"}) {
    std::filesystem::resize_file(folder / name, std::filesystem::file_size(folder / name) - 1);
  }
  const VerifyReport report = verify_checkpoint(folder.path());
  EXPECT_FALSE(report.readable);
  ASSERT_EQ(report.findings.size(), 2u);
  EXPECT_EQ(report.findings[0].file, "model-2.safetensors");
  EXPECT_EQ(report.findings[1].file, "model.safetensors");
  EXPECT_EQ(report.errors(), 2);
}

TEST(VerifyModel, reports_a_missing_shard) {
  SmallModel model = testing::small_llama(Format::nvfp4);
  model.add_floats("other", {1}, {1.0f}, "model-2.safetensors");
  TemporaryFolder folder;
  model.write(folder.path());
  std::filesystem::remove(folder / "model-2.safetensors");
  const VerifyReport report = verify_checkpoint(folder.path());
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].rule, "unreadable");
  EXPECT_NE(report.findings[0].message.find("'model-2.safetensors'; download them"),
            std::string::npos);
}

TEST(VerifyModel, throws_when_there_is_nothing_to_look_at) {
  TemporaryFolder folder;
  try {
    verify_checkpoint(folder / "nothing");
    FAIL() << "no failure";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::io);
  }
}

TEST(VerifyModel, lists_fifty_of_a_kind_and_counts_the_rest) {
  SmallModel model = testing::small_llama(Format::nvfp4);
  for (int i = 100; i < 170; ++i) {
    model.add_floats("model.layers." + std::to_string(i) + ".mlp.down_proj.weight", {2, 2},
                     {1, 2, 3, 4});
  }
  Texts texts = findings_of(model);
  std::erase_if(
      texts, [](const std::string& text) { return !text.starts_with("error dense-but-expected"); });
  ASSERT_EQ(texts.size(), 51u);
  EXPECT_EQ(texts[50],
            "error dense-but-expected | 20 more findings of the kind 'dense-but-expected' are not "
            "listed");
}

TEST(VerifyModel, stops_when_told_to) {
  TemporaryFolder folder;
  testing::small_llama(Format::nvfp4).write(folder.path());
  try {
    verify_checkpoint(folder.path(), {.threads = 1},
                      [](std::int64_t, std::int64_t, std::string_view) { return false; });
    FAIL() << "no failure";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::interrupted);
  }
}

TEST(VerifyModel, output_of_a_run_that_finished_no_file_is_unfinished) {
  TemporaryFolder folder;
  testing::write_file(folder / ".microscale-journal", "{}\n");
  const VerifyReport report = verify_checkpoint(folder.path());
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].rule, "unfinished");
  EXPECT_NE(report.findings[0].message.find("quantize --resume"), std::string::npos);
}

TEST(VerifyModel, a_config_that_names_no_model_is_warned_of) {
  testing::SmallModel model = testing::small_llama(Format::mxfp4);
  model.config.replace(model.config.find("model_type"), 10, "other_type");
  const testing::Texts found = testing::findings_of(model);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0].starts_with("warning no-config | config.json: it names no model"))
      << found[0];
}

}  // namespace
}  // namespace microscale
