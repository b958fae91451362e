#include "checkpoint/folder_files.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <string>
#include <vector>

#include "checkpoint/support.hpp"

namespace microscale {
namespace {

namespace fs = std::filesystem;
using testing::fails_with;
using testing::succeeds;
using testing::TemporaryFolder;
using testing::write_file;

std::vector<std::string> left_out(const FolderFiles& files) {
  std::vector<std::string> names;
  for (const LeftOutFile& file : files.left_out) {
    names.push_back(file.path.string() + ": " + file.reason);
  }
  std::sort(names.begin(), names.end());
  return names;
}

TEST(ListFolder, sorts_files_by_what_they_are) {
  TemporaryFolder folder;
  for (const char* name : {"config.json", "model.safetensors.index.json", "b.safetensors",
                           "a.safetensors", "tokenizer.json", "1_Pooling/config.json",
                           "nested/deep/model.safetensors", ".gitattributes"}) {
    write_file(folder / name, "");
  }
  const FolderFiles files = take(list_folder(folder.path()));
  EXPECT_TRUE(files.has_config);
  EXPECT_TRUE(files.has_index);
  EXPECT_EQ(files.top_level_safetensors,
            (std::vector<std::string>{"a.safetensors", "b.safetensors"}));
  EXPECT_EQ(files.to_copy,
            (std::vector<fs::path>{".gitattributes", "1_Pooling/config.json",
                                   "nested/deep/model.safetensors", "tokenizer.json"}));
  EXPECT_TRUE(files.left_out.empty());
}

TEST(ListFolder, leaves_out_other_weights_and_leftovers) {
  TemporaryFolder folder;
  for (const char* name :
       {"pytorch_model.bin", "pytorch_model.bin.index.json", "tf_model.h5", "x.pt", "x.pth",
        "x.onnx", "flax_model.msgpack", "x.gguf", "original/consolidated.00.pth",
        "2_Dense/pytorch_model.bin", "model.safetensors.partial", ".git/HEAD", "binary.txt"}) {
    write_file(folder / name, "");
  }
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  const FolderFiles files = take(list_folder(folder.path()));
  EXPECT_EQ(files.to_copy, (std::vector<fs::path>{"2_Dense/pytorch_model.bin", "binary.txt"}));
  EXPECT_EQ(
      left_out(files),
      (std::vector<std::string>{
          ".git: hidden folder", "flax_model.msgpack: weights in another format",
          "model.safetensors.partial: unfinished file of an earlier run",
          "original/consolidated.00.pth: weights in another format", "pipe: not a regular file",
          "pytorch_model.bin.index.json: index of weights in "
          "another format",
          "pytorch_model.bin: weights in another format", "tf_model.h5: weights in another format",
          "x.gguf: weights in another format", "x.onnx: weights in another format",
          "x.pt: weights in another format", "x.pth: weights in another format"}));
}

TEST(ListFolder, links_that_leave_the_folder_are_refused) {
  TemporaryFolder outside, folder;
  write_file(outside / "secret", "secret");
  write_file(folder / "real.json", "{}");
  fs::create_symlink("real.json", folder / "inside.json");
  EXPECT_EQ(take(list_folder(folder.path())).to_copy,
            (std::vector<fs::path>{"inside.json", "real.json"}));
  fs::create_symlink(outside / "secret", folder / "tokenizer.json");
  EXPECT_TRUE(fails_with(list_folder(folder.path()), "tokenizer.json' is a link that leads out"));
  fs::remove(folder / "tokenizer.json");
  fs::create_symlink("gone", folder / "dangling");
  EXPECT_TRUE(fails_with(list_folder(folder.path()),
                         "dangling' is a link that leads out of the "
                         "model folder or nowhere"));
}

TEST(ListFolder, linked_folders_are_not_entered) {
  TemporaryFolder outside, folder;
  write_file(outside / "secret", "secret");
  fs::create_directory_symlink(outside.path(), folder / "sub");
  fs::create_directory_symlink(".", folder / "self");
  const FolderFiles files = take(list_folder(folder.path()));
  EXPECT_TRUE(files.to_copy.empty());
  EXPECT_EQ(left_out(files),
            (std::vector<std::string>{"self: link to a folder", "sub: link to a folder"}));
}

TEST(LinkStaysInside, knows_the_hugging_face_cache) {
  TemporaryFolder cache;
  write_file(cache / "models--a--b/blobs/1234", "{}");
  write_file(cache / "models--c--d/blobs/1234", "{}");
  write_file(cache / "models--a--b/refs/main", "rev");
  const fs::path snapshot = cache / "models--a--b/snapshots/rev";
  fs::create_directories(snapshot);
  fs::create_symlink("../../blobs/1234", snapshot / "config.json");
  fs::create_symlink("../../../models--c--d/blobs/1234", snapshot / "other_model");
  fs::create_symlink("../../refs/main", snapshot / "not_a_blob");
  EXPECT_TRUE(link_stays_inside(snapshot, snapshot / "config.json"));
  EXPECT_FALSE(link_stays_inside(snapshot, snapshot / "other_model"));
  EXPECT_FALSE(link_stays_inside(snapshot, snapshot / "not_a_blob"));
}

TEST(ListFolder, paths_are_relative_however_the_folder_is_written) {
  TemporaryFolder folder;
  write_file(folder / "a.json", "{}");
  const std::string plain = folder.path().string();
  for (const std::string& spelling : {plain, plain + "/", plain + "/.", plain + "//"}) {
    const auto files = list_folder(spelling);
    ASSERT_TRUE(succeeds(files)) << spelling;
    EXPECT_EQ(files.value().to_copy, (std::vector<fs::path>{"a.json"})) << spelling;
  }
}

TEST(ListFolder, a_folder_that_is_not_there_is_refused) {
  EXPECT_TRUE(fails_with(list_folder("/nonexistent/folder"), "cannot list the files of"));
}

}  // namespace
}  // namespace microscale
