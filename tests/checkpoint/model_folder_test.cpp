#include "checkpoint/model_folder.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/support.hpp"

namespace microscale {
namespace {

namespace fs = std::filesystem;
using testing::fails_with;
using testing::safetensors_file;
using testing::succeeds;
using testing::TemporaryFolder;
using testing::write_file;

// A file of one-byte tensors.
std::string shard_with(const std::vector<std::string>& names) {
  std::string json = "{", data;
  for (const std::string& name : names) {
    const std::string begin = std::to_string(data.size()), end = std::to_string(data.size() + 1);
    json += (data.empty() ? "\"" : ",\"") + name +
            R"(":{"dtype":"U8","shape":[1],"data_offsets":[)" + begin + "," + end + "]}";
    data += 'x';
  }
  return safetensors_file(json + "}", data);
}

constexpr const char* index_name = "model.safetensors.index.json";

// An index of the given (tensor, file) pairs.
std::string index_of(const std::vector<std::pair<std::string, std::string>>& map,
                     const std::string& metadata = "{}") {
  std::string json = "{\"metadata\":" + metadata + ",\"weight_map\":{";
  for (std::size_t i = 0; i < map.size(); ++i) {
    json += (i ? ",\"" : "\"") + map[i].first + "\":\"" + map[i].second + "\"";
  }
  return json + "}}";
}

// Two shards, index, config: the folder most tests start from.
void write_sharded_model(const TemporaryFolder& folder) {
  write_file(folder / "s-1.safetensors", shard_with({"m", "a"}));
  write_file(folder / "s-2.safetensors", shard_with({"b"}));
  write_file(
      folder / index_name,
      index_of({{"a", "s-1.safetensors"}, {"b", "s-2.safetensors"}, {"m", "s-1.safetensors"}}));
  write_file(folder / "config.json", "{\"architectures\": []}\n");
}

TEST(OpenModelFolder, opens_a_sharded_model) {
  TemporaryFolder folder;
  write_sharded_model(folder);
  write_file(folder / "tokenizer.json", "{}");
  write_file(folder / "pytorch_model.bin", "");
  const auto model = open_model_folder(folder.path());
  ASSERT_TRUE(succeeds(model));
  const ModelFolder& m = model.value();
  EXPECT_TRUE(m.whole_folder);
  EXPECT_EQ(m.index_name, index_name);
  ASSERT_EQ(m.shards.size(), 2u);
  EXPECT_EQ(m.shards[0].name, "s-1.safetensors");
  EXPECT_EQ(m.shards[1].file.size(), fs::file_size(folder / "s-2.safetensors"));
  std::string order;
  for (const ModelTensor& tensor : m.tensors) {
    order += tensor.name() + std::to_string(tensor.shard) + " ";
  }
  EXPECT_EQ(order, "a0 b1 m0 ");
  EXPECT_EQ(m.config_text, "{\"architectures\": []}\n");
  EXPECT_EQ(m.other_files, (std::vector<fs::path>{"tokenizer.json"}));
  ASSERT_EQ(m.left_out_files.size(), 1u);
  EXPECT_EQ(m.left_out_files[0].path, "pytorch_model.bin");
  EXPECT_TRUE(m.notices.empty());
  EXPECT_EQ(m.tensor_bytes(), 3u);
}

TEST(OpenModelFolder, entries_stay_valid_when_the_model_is_moved) {
  TemporaryFolder folder;
  write_sharded_model(folder);
  ModelFolder first = take(open_model_folder(folder.path()));
  const ModelFolder second = std::move(first);
  ASSERT_NE(second.find("b"), nullptr);
  EXPECT_EQ(second.find("b")->entry, &second.shards[1].header.tensors[0]);
  EXPECT_EQ(second.find("c"), nullptr);
}

TEST(OpenModelFolder, opens_a_single_file_model) {
  TemporaryFolder folder;
  write_file(folder / "model.safetensors", shard_with({"a"}));
  write_file(folder / "consolidated.safetensors", shard_with({"a"}));
  const ModelFolder model = take(open_model_folder(folder.path()));
  EXPECT_EQ(model.index_name, "");
  ASSERT_EQ(model.shards.size(), 1u);
  EXPECT_EQ(model.config_text, std::nullopt);
  ASSERT_EQ(model.left_out_files.size(), 1u);
  EXPECT_EQ(model.left_out_files[0].path, "consolidated.safetensors");
  EXPECT_EQ(model.left_out_files[0].reason, "the same weights under the names of Mistral's format");
}

TEST(OpenModelFolder, takes_the_only_weights_there_are) {
  TemporaryFolder folder;
  write_file(folder / "weights.safetensors", shard_with({"a"}));
  EXPECT_EQ(take(open_model_folder(folder.path())).shards[0].name, "weights.safetensors");
}

TEST(OpenModelFolder, opens_one_file_by_itself) {
  TemporaryFolder folder;
  write_sharded_model(folder);
  const ModelFolder model = take(open_model_folder(folder / "s-2.safetensors"));
  EXPECT_EQ(model.root, folder.path());
  EXPECT_EQ(model.tensors.size(), 1u);
  EXPECT_TRUE(model.other_files.empty());
  EXPECT_FALSE(model.whole_folder);
  EXPECT_EQ(model.config_text, "{\"architectures\": []}\n");
  write_file(folder / "config.json", "{\"name\": \"of something else\"}");
  EXPECT_EQ(take(open_model_folder(folder / "s-2.safetensors")).config_text, std::nullopt);
  EXPECT_TRUE(
      fails_with(open_model_folder(folder / "config.json"), "is no .safetensors or GGUF file"));
}

TEST(OpenModelFolder, says_that_a_numbered_shard_is_not_a_whole_model) {
  TemporaryFolder folder;
  const auto path = folder / "model-00001-of-00002.safetensors";
  write_file(path, shard_with({"a"}));
  EXPECT_TRUE(
      fails_with(open_model_folder(folder.path()), "unknown which files make up the model"));
  const ModelFolder alone = take(open_model_folder(path));
  ASSERT_EQ(alone.notices.size(), 1u);
  EXPECT_NE(alone.notices[0].find("one of several shards"), std::string::npos);
}

TEST(OpenModelFolder, several_files_without_an_index_are_refused) {
  TemporaryFolder folder;
  write_file(folder / "a.safetensors", shard_with({"a"}));
  write_file(folder / "b.safetensors", shard_with({"b"}));
  EXPECT_TRUE(
      fails_with(open_model_folder(folder.path()), "'a.safetensors', 'b.safetensors' but no"));
}

TEST(OpenModelFolder, what_is_no_model_is_refused) {
  TemporaryFolder folder;
  EXPECT_TRUE(fails_with(open_model_folder(folder.path()), "holds no .safetensors file"));
  EXPECT_TRUE(fails_with(open_model_folder(folder / "none"), "cannot open"));
  write_file(folder / "model.safetensors/x", "");
  EXPECT_TRUE(fails_with(open_model_folder(folder.path()), "holds no .safetensors file"));
}

TEST(OpenModelFolder, missing_shards_are_named) {
  TemporaryFolder folder;
  write_sharded_model(folder);
  fs::remove(folder / "s-2.safetensors");
  EXPECT_TRUE(fails_with(open_model_folder(folder.path()), "1 of the 2 files named by"));
  EXPECT_TRUE(fails_with(open_model_folder(folder.path()), "missing: 's-2.safetensors'; download"));
  std::vector<std::pair<std::string, std::string>> map;
  for (char c = 'a'; c <= 'e'; ++c) {
    map.emplace_back(std::string(1, c), std::string(1, c) + ".safetensors");
  }
  write_file(folder / index_name, index_of(map));
  EXPECT_TRUE(fails_with(open_model_folder(folder.path()),
                         "'a.safetensors', 'b.safetensors', 'c.safetensors' and 2 more"));
}

TEST(OpenModelFolder, tensors_the_index_promises_must_be_where_it_says) {
  TemporaryFolder folder;
  write_sharded_model(folder);
  write_file(folder / index_name, index_of({{"a", "s-1.safetensors"}, {"c", "s-2.safetensors"}}));
  EXPECT_TRUE(fails_with(open_model_folder(folder.path()),
                         "tensor 'c' is in 's-2.safetensors', but that file does not hold it;"));
  write_file(
      folder / index_name,
      index_of({{"a", "s-1.safetensors"}, {"b", "s-1.safetensors"}, {"m", "s-2.safetensors"}}));
  EXPECT_TRUE(fails_with(open_model_folder(folder.path()),
                         "but that file does not hold it, it is in 's-2.safetensors'"));
}

TEST(OpenModelFolder, a_tensor_in_two_shards_is_refused) {
  TemporaryFolder folder;
  write_sharded_model(folder);
  write_file(folder / "s-2.safetensors", shard_with({"b", "m"}));
  EXPECT_TRUE(fails_with(open_model_folder(folder.path()), "tensor 'm' is in two files of"));
}

TEST(OpenModelFolder, tensors_the_index_forgets_are_kept_with_a_notice) {
  TemporaryFolder folder;
  write_sharded_model(folder);
  write_file(folder / index_name,
             index_of({{"a", "s-1.safetensors"}, {"b", "s-2.safetensors"}}, R"({"total_size":9})"));
  const ModelFolder model = take(open_model_folder(folder.path()));
  EXPECT_NE(model.find("m"), nullptr);
  ASSERT_EQ(model.notices.size(), 2u);
  EXPECT_NE(model.notices[0].find("does not mention 'm'"), std::string::npos);
  EXPECT_NE(model.notices[1].find("9 bytes, they have 3"), std::string::npos);
}

TEST(OpenModelFolder, an_index_beside_another_model_is_refused) {
  TemporaryFolder folder;
  write_sharded_model(folder);
  write_file(folder / "model.safetensors", shard_with({"a"}));
  EXPECT_TRUE(fails_with(open_model_folder(folder.path()), "which are two models"));
}

TEST(OpenModelFolder, bad_json_names_its_file) {
  TemporaryFolder folder;
  write_sharded_model(folder);
  const std::string config = "'" + (folder / "config.json").string() + "': ";
  write_file(folder / "config.json", R"({"a":1,"a":2})");
  EXPECT_TRUE(fails_with(open_model_folder(folder.path()), config + "the key 'a' appears twice"));
  write_file(folder / "config.json", "[1]");
  EXPECT_TRUE(fails_with(open_model_folder(folder.path()), config + "it is not a JSON object"));
  write_file(folder / index_name, index_of({{"a", "../s-1.safetensors"}}));
  EXPECT_TRUE(fails_with(open_model_folder(folder.path()),
                         "'" + (folder / index_name).string() + "': weight_map puts tensor 'a'"));
}

TEST(OpenModelFolder, a_bad_shard_is_named) {
  TemporaryFolder folder;
  write_sharded_model(folder);
  write_file(folder / "s-2.safetensors", shard_with({"b"}) + "?");
  EXPECT_TRUE(fails_with(open_model_folder(folder.path()),
                         "s-2.safetensors': the file has 1 bytes after its last tensor"));
}

TEST(OpenModelFolder, reads_shards_behind_links_to_another_disk_and_says_so) {
  TemporaryFolder folder, outside;
  write_sharded_model(folder);
  fs::rename(folder / "s-2.safetensors", outside / "two.safetensors");
  fs::create_symlink(outside / "two.safetensors", folder / "s-2.safetensors");
  const ModelFolder model = take(open_model_folder(folder.path()));
  EXPECT_EQ(model.tensors.size(), 3u);
  ASSERT_EQ(model.remarks.size(), 1u);
  EXPECT_NE(model.remarks[0].find("1 of its files lie elsewhere"), std::string::npos);
  EXPECT_TRUE(model.notices.empty());
}

TEST(OpenModelFolder, keeps_files_beside_the_model_that_hold_more) {
  TemporaryFolder folder;
  write_sharded_model(folder);
  write_file(folder / "mtp.safetensors", shard_with({"mtp.fc.weight"}));
  write_file(folder / "model.fp16.safetensors", shard_with({"a", "b"}));
  write_file(folder / "half.safetensors", shard_with({"a", "z"}));
  write_file(folder / "broken.safetensors", "version https://git-lfs.github.com/spec/v1\n");
  write_file(folder / "mtp.safetensors.index.json",
             index_of({{"mtp.fc.weight", "mtp.safetensors"}}));
  write_file(folder / "fp16.safetensors.index.json", index_of({{"a", "model.fp16.safetensors"}}));
  const ModelFolder model = take(open_model_folder(folder.path()));
  EXPECT_EQ(model.other_files, (std::vector<fs::path>{"half.safetensors", "mtp.safetensors",
                                                      "mtp.safetensors.index.json"}));
  ASSERT_EQ(model.strays.size(), 2u);
  EXPECT_EQ(model.strays[1].header.tensors[0].name, "mtp.fc.weight");
  ASSERT_EQ(model.left_out_files.size(), 3u);
  EXPECT_EQ(model.left_out_files[0].reason,
            "no readable safetensors file: is a Git LFS pointer in place of the file itself; fetch "
            "that with `git lfs pull` in its folder");
  EXPECT_EQ(model.left_out_files[1].reason, "index of weights that are left out");
  EXPECT_EQ(model.left_out_files[2].reason, "its tensors are in the model already");
  ASSERT_EQ(model.notices.size(), 1u);
  EXPECT_NE(model.notices[0].find("'half.safetensors' is no file of the model"), std::string::npos);
}

TEST(OpenModelFolder, names_side_files_that_were_not_downloaded) {
  TemporaryFolder folder;
  write_sharded_model(folder);
  write_file(folder / "tokenizer.model", "version https://git-lfs.github.com/spec/v1\noid sha256:");
  const ModelFolder model = take(open_model_folder(folder.path()));
  EXPECT_EQ(model.pointers, (std::vector<std::string>{"tokenizer.model"}));
  EXPECT_NE(model.sentences().back().find("'tokenizer.model' is a Git LFS pointer"),
            std::string::npos);
}

TEST(OpenModelFolder, reads_an_index_of_any_name) {
  TemporaryFolder folder;
  write_sharded_model(folder);
  fs::rename(folder / index_name, folder / "diffusion_pytorch_model.safetensors.index.json");
  const ModelFolder model = take(open_model_folder(folder.path()));
  EXPECT_EQ(model.index_name, "diffusion_pytorch_model.safetensors.index.json");
  EXPECT_EQ(model.tensors.size(), 3u);
}

TEST(OpenModelFolder, opens_a_snapshot_of_the_hugging_face_cache) {
  TemporaryFolder cache;
  write_file(cache / "blobs/abc", shard_with({"a"}));
  fs::create_directories(cache / "snapshots/rev");
  fs::create_symlink("../../blobs/abc", cache / "snapshots/rev/model.safetensors");
  EXPECT_TRUE(succeeds(open_model_folder(cache / "snapshots/rev")));
}

TEST(OpenModelFolder, unfinished_output_is_called_so) {
  TemporaryFolder folder;
  write_file(folder / ".microscale-journal", "{}\n");
  write_file(folder / "model.safetensors.partial", "half");
  const auto opened = open_model_folder(folder.path());
  EXPECT_TRUE(fails_with(opened, "is the unfinished output of another run"));
  EXPECT_TRUE(fails_with(opened, "quantize --resume"));
}

TEST(CheckUnchanged, notices_an_input_that_changed_meanwhile) {
  TemporaryFolder folder;
  const fs::path shard = folder / "model.safetensors";
  write_file(shard, shard_with({"a"}));
  const auto opened = open_model_folder(folder.path());
  ASSERT_TRUE(succeeds(opened));
  EXPECT_TRUE(succeeds(check_unchanged(opened.value())));
  fs::last_write_time(shard, fs::last_write_time(shard) + std::chrono::seconds(1));
  EXPECT_TRUE(fails_with(check_unchanged(opened.value()), "was changed while it was converted"));
}

}  // namespace
}  // namespace microscale
