#include "checkpoint/model_place.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "checkpoint/support.hpp"

namespace microscale {
namespace {

namespace fs = std::filesystem;
using testing::fails_with;
using testing::TemporaryFolder;
using testing::write_file;

TEST(FindModel, takes_the_snapshot_of_refs_main) {
  TemporaryFolder hub;
  const fs::path cache = hub / "models--a--b";
  write_file(cache / "snapshots/abc/config.json", "{}");
  write_file(cache / "refs/main", "abc");
  EXPECT_EQ(take(find_model(cache)).root, cache / "snapshots/abc");
  write_file(cache / "snapshots/def/config.json", "{}");
  const ModelPlace place = take(find_model(cache));
  EXPECT_EQ(place.root, cache / "snapshots/abc");
  ASSERT_EQ(place.remarks.size(), 1u);
  EXPECT_NE(place.remarks[0].find("snapshot of refs/main, 'abc'"), std::string::npos);
  EXPECT_EQ(take(find_model(hub.path())).root, cache / "snapshots/abc");  // the only model
  EXPECT_EQ(take(find_model(cache / "snapshots/def")).root, cache / "snapshots/def");
}

TEST(FindModel, asks_where_a_cache_does_not_say_which_snapshot) {
  TemporaryFolder hub;
  const fs::path cache = hub / "models--a--b";
  fs::create_directories(cache / "blobs");
  fs::create_directories(cache / "snapshots");
  EXPECT_TRUE(fails_with(find_model(cache), "without a snapshot, so nothing was downloaded"));
  write_file(cache / "snapshots/abc/config.json", "{}");
  EXPECT_EQ(take(find_model(cache)).root, cache / "snapshots/abc");
  write_file(cache / "snapshots/def/config.json", "{}");
  write_file(cache / "refs/main", "../../../elsewhere");
  EXPECT_TRUE(fails_with(find_model(cache), "with the snapshots 'abc', 'def'"));
  fs::create_directories(hub / "models--c--d/snapshots");
  EXPECT_TRUE(fails_with(find_model(hub.path()),
                         "with 2 models: 'models--a--b', 'models--c--d'; name one"));
}

TEST(FindModel, leaves_a_model_folder_with_snapshots_of_its_own_alone) {
  TemporaryFolder folder;
  fs::create_directories(folder / "snapshots/step-1");
  EXPECT_EQ(take(find_model(folder.path())).root, folder.path());
  fs::create_directories(folder / "refs");
  write_file(folder / "config.json", "{}");
  EXPECT_EQ(take(find_model(folder.path())).root, folder.path());
}

TEST(FindModel, names_one_file_for_what_it_is) {
  TemporaryFolder folder;
  write_file(folder / "m.gguf", "GGUF");
  const auto gguf = find_model(folder / "m.gguf");
  ASSERT_TRUE(testing::succeeds(gguf));
  EXPECT_TRUE(gguf.value().is_gguf);
  EXPECT_EQ(gguf.value().file, "m.gguf");
  write_file(folder / "pytorch_model.bin", std::string("\x80\x02}q", 4));
  EXPECT_TRUE(
      fails_with(find_model(folder / "pytorch_model.bin"), "is a PyTorch pickle; write it"));
  write_file(folder / "notes.json", "{}");
  EXPECT_TRUE(
      fails_with(find_model(folder / "notes.json"), "is no .safetensors or GGUF file; name one"));
  write_file(folder / "x.safetensors.index.json", "{}");
  EXPECT_EQ(take(find_model(folder / "x.safetensors.index.json")).index,
            "x.safetensors.index.json");
  write_file(folder / "x.safetensors", "");
  EXPECT_EQ(take(find_model(folder / "x.safetensors")).file, "x.safetensors");
}

TEST(FindModel, says_how_a_model_of_the_hub_is_fetched) {
  EXPECT_TRUE(
      fails_with(find_model("Qwen/Qwen3-8B"), "`hf download Qwen/Qwen3-8B --local-dir Qwen3-8B`"));
  EXPECT_TRUE(fails_with(find_model("/no/such"), "No such file or directory; name a model folder"));
  EXPECT_TRUE(fails_with(find_model(""), "no model was named"));
}

// What a folder with these files says about itself.
std::string explained(const std::vector<std::pair<std::string, std::string>>& files) {
  TemporaryFolder folder;
  for (const auto& [name, text] : files) write_file(folder / name, text);
  return explain_no_weights(folder.path(), take(list_folder(folder.path()))).message;
}

TEST(ExplainNoWeights, names_what_the_folder_is) {
  const std::string pickle("\x80\x02}q", 4);
  const auto has = [](const std::string& text, const std::string& phrase) {
    EXPECT_NE(text.find(phrase), std::string::npos) << text;
  };
  has(explained({{"model_index.json", "{}"},
                 {"vae/a.safetensors", ""},
                 {"transformer/b.safetensors", ""}}),
      "is a pipeline of diffusers (model_index.json), whose models lie in sub-folders: "
      "'transformer', 'vae'; convert the one");
  has(explained({{"adapter_config.json", "{}"}, {"adapter_model.bin", pickle}}),
      "is an adapter (adapter_config.json), not a model; name its base model");
  has(explained({{"pytorch_model.bin", pickle}}), "its 'pytorch_model.bin' is a PyTorch pickle");
  has(explained({{"config.json", "{}"}, {"pytorch_model.bin", pickle}}), "save_pretrained");
  has(explained({{"model-q4.gguf", "GGUF"}}), "its 'model-q4.gguf' is a GGUF");
  has(explained({{"tf_model.h5", "\x89HDF\r\n\x1A\n"}}), "from_tf=True");
  has(explained({{"flax_model.msgpack", "\x82\xA6params"}}), "from_flax=True");
  has(explained({{"model.onnx", "\x08\x07\x12\x07pytorch"}}), "is an ONNX model");
  has(explained({{"weights.npz", "\x93NUMPY"}}), "arrays of NumPy");
  has(explained({{"0_Transformer/model.safetensors", ""}}), "its sub-folders do: '0_Transformer'");
  has(explained({{"readme.md", ""}}), "holds no .safetensors file; name a model folder");
}

}  // namespace
}  // namespace microscale
