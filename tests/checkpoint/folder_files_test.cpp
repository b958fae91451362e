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
  EXPECT_EQ(files.indexes, (std::vector<std::string>{"model.safetensors.index.json"}));
  EXPECT_EQ(files.top_level_safetensors,
            (std::vector<std::string>{"a.safetensors", "b.safetensors"}));
  EXPECT_EQ(files.to_copy,
            (std::vector<fs::path>{".gitattributes", "1_Pooling/config.json",
                                   "nested/deep/model.safetensors", "tokenizer.json"}));
  EXPECT_TRUE(files.left_out.empty());
}

TEST(ListFolder, leaves_out_other_weights_and_leftovers) {
  TemporaryFolder folder;
  for (const char* name : {"pytorch_model.bin",
                           "pytorch_model.bin.index.json",
                           "tf_model.h5",
                           "model.pt",
                           "x.gguf",
                           "flax_model.msgpack",
                           "original/params.json",
                           "checkpoint-500/model.safetensors",
                           "onnx/model.onnx",
                           "2_Dense/pytorch_model.bin",
                           "model.safetensors.partial",
                           ".git/HEAD",
                           "binary.txt",
                           "optimizer.pt",
                           "rng_state_0.pth",
                           "training_args.bin",
                           "pytorch_model-00001-of-00002.bin",
                           "consolidated.00.pth",
                           "scheduler/config.json",
                           "x.safetensors.aria2"}) {
    write_file(folder / name, "");
  }
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  const FolderFiles files = take(list_folder(folder.path()));
  EXPECT_EQ(files.to_copy, (std::vector<fs::path>{"2_Dense/pytorch_model.bin", "binary.txt",
                                                  "scheduler/config.json"}));
  EXPECT_EQ(
      left_out(files),
      (std::vector<std::string>{
          ".git: hidden folder", "checkpoint-500: checkpoint of a training run",
          "consolidated.00.pth: weights in another format",
          "flax_model.msgpack: weights in another format", "model.pt: weights in another format",
          "model.safetensors.partial: unfinished file of an earlier run",
          "onnx: the same model in another format", "optimizer.pt: state of a training run",
          "original: the same model as it was before it was converted", "pipe: not a regular file",
          "pytorch_model-00001-of-00002.bin: weights in another "
          "format",
          "pytorch_model.bin.index.json: index of weights in another format",
          "pytorch_model.bin: weights in another format",
          "rng_state_0.pth: state of a training run", "tf_model.h5: weights in another format",
          "training_args.bin: state of a training run", "x.gguf: weights in another format",
          "x.safetensors.aria2: unfinished download"}));
}

TEST(ListFolder, keeps_small_files_that_only_look_like_weights) {
  TemporaryFolder folder;
  const std::vector<fs::path> wanted{"assets/noise.bin",    "campplus.onnx",
                                     "deep/voices/alba.pt", "mean_var_norm.ckpt",
                                     "mel_filters.npz",     "processor/preprocessor_config.json",
                                     "spk_dict.pt",         "voices/af_bella.pt"};
  for (const fs::path& name : wanted) write_file(folder.path() / name, "x");
  const FolderFiles files = take(list_folder(folder.path()));
  EXPECT_EQ(files.to_copy, wanted);
  EXPECT_TRUE(files.left_out.empty());
}

TEST(ReasonToLeaveOut, asks_the_size_of_what_looks_like_weights_only) {
  constexpr std::uint64_t mebibyte = 1 << 20;
  EXPECT_EQ(reason_to_leave_out("flow.pt", 64 * mebibyte), "");
  EXPECT_EQ(reason_to_leave_out("flow.pt", 64 * mebibyte + 1),
            "weights in another format, larger than 64 MiB");
  EXPECT_EQ(reason_to_leave_out("tokenizer.json", 999 * mebibyte), "");
  EXPECT_EQ(reason_to_leave_out("2_Dense/pytorch_model.bin", 999 * mebibyte), "");
  EXPECT_EQ(reason_to_leave_out("model_stats.npz", 1), "");
  EXPECT_EQ(reason_to_leave_out("model.pt", 1), "weights in another format");
  EXPECT_EQ(reason_to_leave_out("vocoder/model.pt", 1), "");
  EXPECT_EQ(reason_to_leave_out("sub/model_q4.onnx", 1), "weights in another format");
}

TEST(ListFolder, follows_links_to_files_of_the_same_kind) {
  TemporaryFolder outside, folder;
  write_file(outside / "secret", "secret");
  write_file(outside / "real.json", "{}");
  const std::string hash(40, 'a');
  write_file(outside / hash, "{}");
  write_file(folder / "real.json", "{}");
  fs::create_symlink("real.json", folder / "inside.json");
  fs::create_symlink(outside / "real.json", folder / "other.json");
  fs::create_symlink(outside / hash, folder / "stored.model");
  const FolderFiles files = take(list_folder(folder.path()));
  EXPECT_EQ(files.to_copy,
            (std::vector<fs::path>{"inside.json", "other.json", "real.json", "stored.model"}));
  ASSERT_EQ(files.linked.size(), 2u);
  EXPECT_EQ(files.linked[0],
            "'other.json' (to '" + fs::canonical(outside / "real.json").string() + "')");
  fs::create_symlink(outside / "secret", folder / "tokenizer.json");
  EXPECT_TRUE(fails_with(list_folder(folder.path()), "tokenizer.json' is a link that leads out"));
}

TEST(ListFolder, links_to_nothing_are_refused_where_the_file_would_be_copied) {
  TemporaryFolder folder;
  fs::create_symlink("/gone/pytorch_model.bin", folder / "pytorch_model.bin");
  EXPECT_TRUE(succeeds(list_folder(folder.path())));
  fs::create_symlink("/gone/tokenizer.json", folder / "tokenizer.json");
  EXPECT_TRUE(
      fails_with(list_folder(folder.path()),
                 "is a link to '/gone/tokenizer.json', which is not there; mount that disk"));
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

TEST(ReasonToLeaveOut, descriptions_of_other_tools_stay_behind) {
  for (const char* name : {"quantize_config.json", "quant_config.json"}) {
    EXPECT_EQ(reason_to_leave_out(name, 10), "GPTQ's or AWQ's description of quantized weights");
    EXPECT_EQ(reason_to_leave_out(std::filesystem::path("part") / name, 10), "");
  }
}

}  // namespace
}  // namespace microscale
