#include <gtest/gtest.h>

#include "checkpoint/sample_model.hpp"
#include "checkpoint/verify_model.hpp"

namespace microscale {
namespace {

using testing::options_for;
using testing::read_file;
using testing::TemporaryFolder;
using testing::write_file;

/// "rule | message" of what verify finds.
std::vector<std::string> findings_of(const std::filesystem::path& path, int threads = 2) {
  std::vector<std::string> texts;
  for (const Finding& finding : verify_checkpoint(path, {.threads = threads}).findings) {
    texts.push_back(finding.rule + " | " + finding.message);
  }
  return texts;
}

/// A quantized folder, "out".
class VerifyManifest : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::sample_model().write(folder_ / "in");
    quantize_model(options_for(folder_, Format::nvfp4));
    ASSERT_EQ(findings_of(out()), std::vector<std::string>());
  }
  std::filesystem::path out() const { return folder_ / "out"; }
  std::filesystem::path shard(int number) const {
    return out() / ("model-0000" + std::to_string(number) + "-of-00002.safetensors");
  }
  /// Flips a bit of a tensor.
  void flip(const std::string& name) const {
    const ModelFolder model = take(open_model_folder(out()));
    const ModelTensor& tensor = *model.find(name);
    const std::filesystem::path path = out() / model.shards[tensor.shard].name;
    std::string bytes = read_file(path);
    bytes[tensor.entry->end - 1] ^= 1;
    write_file(path, bytes);
  }

  TemporaryFolder folder_;
};

TEST_F(VerifyManifest, finds_every_flipped_bit) {
  for (const ModelTensor& tensor : take(open_model_folder(out())).tensors) {
    if (tensor.entry->bytes() == 0) continue;
    const std::string name = tensor.name();
    flip(name);
    bool found = false;
    for (const std::string& text : findings_of(out())) {
      found |= text.find("'" + name + "': its bytes were changed after the folder was written") !=
               std::string::npos;
    }
    EXPECT_TRUE(found) << name;
    flip(name);
  }
  EXPECT_EQ(findings_of(out()), std::vector<std::string>());
}

TEST_F(VerifyManifest, misses_a_tensor_and_notices_a_new_one) {
  testing::TestTensors tensors;
  for (auto& [name, tensor] : testing::read_tensors(out())) tensors[name] = tensor;
  tensors["model.new"] = tensors.at("model.scalar");
  tensors.erase("model.scalar");
  tensors["model.norm.weight"].shape = {8, 8};
  std::filesystem::remove(out() / "model.safetensors.index.json");
  std::filesystem::remove(shard(1));
  std::filesystem::remove(shard(2));
  testing::write_safetensors(out() / "model.safetensors", tensors);
  EXPECT_EQ(
      findings_of(out()),
      (std::vector<std::string>{
          "manifest-added | model.safetensors: 'model.new': it was added after the folder was "
          "written: microscale_manifest.json does not list it; remove the tensor, or the "
          "manifest if it is meant",
          "manifest-type | model.safetensors: 'model.norm.weight': it is BF16 [8, 8], but BF16 "
          "[64] when the folder was written; copy the file again or convert the model again",
          "manifest-missing | model-00001-of-00002.safetensors: 'model.scalar': it was in the "
          "folder when that was written and is missing; copy the file again or convert the "
          "model again"}));
}

// A file of weights beside the model, as vLLM's drafters are.
class VerifySideFiles : public VerifyManifest {
 protected:
  void SetUp() override {
    testing::sample_model().write(folder_ / "in");
    testing::write_safetensors(
        folder_ / "in/mtp.safetensors",
        {{"mtp.fc.weight", testing::random_tensor(StoredType::bf16, {64, 128}, 1)}});
    quantize_model(options_for(folder_, Format::nvfp4));
    ASSERT_EQ(findings_of(out()), std::vector<std::string>());
  }
  std::string only_finding() const {
    const auto findings = findings_of(out());
    return findings.size() == 1 ? findings[0] : std::to_string(findings.size()) + " findings";
  }
};

TEST_F(VerifySideFiles, finds_a_flipped_bit_and_a_lost_file) {
  std::string bytes = read_file(out() / "mtp.safetensors");
  bytes.back() ^= 1;
  write_file(out() / "mtp.safetensors", bytes);
  EXPECT_TRUE(only_finding().starts_with(
      "manifest-file | mtp.safetensors: the file was changed after the folder was written"));
  EXPECT_EQ(verify_checkpoint(out()).errors(), 1);
  EXPECT_TRUE(findings_of(out() / "mtp.safetensors").back().starts_with("manifest-file"));
  std::filesystem::remove(out() / "mtp.safetensors");
  EXPECT_EQ(only_finding(),
            "manifest-file | mtp.safetensors: the file was in the folder when that was written and "
            "is missing; copy the file again or convert the model again");
  EXPECT_EQ(verify_checkpoint(out()).errors(), 1);
}

TEST_F(VerifySideFiles, warns_of_a_text_that_was_edited_and_of_a_file_that_came_later) {
  write_file(out() / "tokenizer.json", "{}");
  EXPECT_EQ(only_finding(),
            "manifest-file | tokenizer.json: the file was changed after the folder was written (2 "
            "bytes, then 8)");
  write_file(out() / "tokenizer.json", "{\"a\": 1}");
  std::filesystem::copy(out() / "mtp.safetensors", out() / "later.safetensors");
  std::filesystem::remove(out() / "later.safetensors");
  testing::write_safetensors(
      out() / "later.safetensors",
      {{"drafter.norm.weight", testing::random_tensor(StoredType::bf16, {64}, 1)}});
  EXPECT_EQ(only_finding(),
            "manifest-added | later.safetensors: the file was added after the folder was written: "
            "microscale_manifest.json does not list it");
  EXPECT_EQ(verify_checkpoint(out()).errors(), 0);
}

TEST_F(VerifySideFiles, looks_at_values_beside_the_model_too) {
  auto tensor = testing::random_tensor(StoredType::bf16, {64, 128}, 1);
  tensor.bytes[1] = '\x7F', tensor.bytes[0] = '\xFF';
  testing::write_safetensors(out() / "mtp.safetensors", {{"mtp.fc.weight", tensor}});
  EXPECT_TRUE(findings_of(out()).front().starts_with("not-finite | mtp.safetensors"));
}

TEST_F(VerifyManifest, holds_one_file_against_its_part) {
  // One finding is there anyway: that the file is one of several.
  EXPECT_EQ(findings_of(shard(1)).size(), 1u);
  EXPECT_EQ(findings_of(shard(2)).size(), 1u);
  flip("model.scalar");
  EXPECT_EQ(findings_of(shard(1)).size(), 2u);
  EXPECT_EQ(findings_of(shard(2)).size(), 1u);
}

TEST_F(VerifyManifest, says_when_it_cannot_be_read) {
  write_file(out() / manifest_name, "{");
  const auto broken = findings_of(out());
  ASSERT_EQ(broken.size(), 1u);
  EXPECT_TRUE(broken[0].starts_with("manifest-unreadable | microscale_manifest.json: "));
  write_file(out() / manifest_name, R"({"manifest": 2})");
  EXPECT_EQ(
      findings_of(out()),
      std::vector<std::string>{
          "manifest-unreadable | microscale_manifest.json: it is of another version, so bytes "
          "are not checked against it; use a newer microscale"});
  EXPECT_EQ(verify_checkpoint(out()).errors(), 0);
  // Of a later version that writes its members in another order and form.
  write_file(out() / manifest_name, R"({"files": [], "manifest": 2})");
  EXPECT_EQ(verify_checkpoint(out()).errors(), 0);
  EXPECT_EQ(findings_of(out()).size(), 1u);
  std::filesystem::remove(out() / manifest_name);
  EXPECT_EQ(findings_of(out()), std::vector<std::string>());
}

TEST_F(VerifyManifest, is_not_handed_on_to_another_model) {
  DequantizeModelOptions options;
  options.input = out();
  options.output = folder_ / "dense";
  dequantize_model(options);
  std::string own = std::filesystem::exists(folder_ / "dense" / manifest_name)
                        ? read_file(folder_ / "dense" / manifest_name)
                        : "";
  EXPECT_NE(own, read_file(out() / manifest_name));
  EXPECT_EQ(findings_of(folder_ / "dense"), std::vector<std::string>());
}

}  // namespace
}  // namespace microscale
