#include "checkpoint/model_files.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "checkpoint/support.hpp"

namespace microscale {
namespace {

using testing::fails_with;
using testing::TemporaryFolder;
using testing::write_file;

class ModelFilesTest : public ::testing::Test {
 protected:
  void put(const std::vector<std::string>& names) {
    for (const std::string& name : names) write_file(folder_ / name, "");
  }
  void put_index(const std::string& name, const std::string& file) {
    write_file(folder_ / name, "{\"weight_map\":{\"a\":\"" + file + "\"}}");
  }
  Result<ModelFiles> find(const std::string& index = "") const {
    return find_model_files(folder_.path(), take(list_folder(folder_.path())), index);
  }
  using Names = std::set<std::string>;
  TemporaryFolder folder_;
};

TEST_F(ModelFilesTest, a_whole_numbered_set_needs_no_index) {
  put({"m-00001-of-00002.safetensors"});
  EXPECT_TRUE(fails_with(find(), "unknown which files make up the model"));
  put({"m-00002-of-00002.safetensors"});
  const ModelFiles whole = take(find());
  EXPECT_EQ(whole.names, (Names{"m-00001-of-00002.safetensors", "m-00002-of-00002.safetensors"}));
  EXPECT_EQ(whole.index_name, "m.safetensors.index.json");
  EXPECT_FALSE(whole.index);
  EXPECT_EQ(whole.notices.size(), 1u);
  put({"m-00001-of-00003.safetensors"});
  EXPECT_TRUE(fails_with(find(), "unknown which files make up the model"));
}

TEST_F(ModelFilesTest, the_usual_index_counts_before_others) {
  put({"a.safetensors", "b.safetensors"});
  put_index("a.safetensors.index.json", "a.safetensors");
  EXPECT_EQ(take(find()).names, Names{"a.safetensors"});
  put_index("b.safetensors.index.json", "b.safetensors");
  EXPECT_TRUE(fails_with(find(), "holds the indexes 'a.safetensors.index.json', 'b."));
  EXPECT_EQ(take(find("b.safetensors.index.json")).names, Names{"b.safetensors"});
  put_index("model.safetensors.index.json", "b.safetensors");
  EXPECT_EQ(take(find()).index_name, "model.safetensors.index.json");
}

TEST_F(ModelFilesTest, model_safetensors_counts_before_an_index_of_another_name) {
  put({"model.safetensors", "consolidated.safetensors"});
  put_index("consolidated.safetensors.index.json", "consolidated.safetensors");
  EXPECT_EQ(take(find()).names, Names{"model.safetensors"});
}

TEST_F(ModelFilesTest, an_index_that_was_not_downloaded_is_called_so) {
  put({"model-1.safetensors"});
  write_file(folder_ / "model.safetensors.index.json",
             "version https://git-lfs.github.com/spec/v1\n");
  EXPECT_TRUE(fails_with(find(), "model.safetensors.index.json' is a Git LFS pointer"));
}

TEST(IsNumberedShard, asks_for_both_numbers) {
  EXPECT_TRUE(is_numbered_shard("model-00001-of-00002.safetensors"));
  for (const char* name : {"model.safetensors", "part-of-2.safetensors", "a-x-of-2.safetensors",
                           "a-1-of-x.safetensors", "-of-.safetensors", "a--of-2.safetensors"}) {
    EXPECT_FALSE(is_numbered_shard(name)) << name;
  }
}

}  // namespace
}  // namespace microscale
