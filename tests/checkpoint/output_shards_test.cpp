#include "checkpoint/output_shards.hpp"

#include <gtest/gtest.h>

#include "sample_model.hpp"

namespace microscale {
namespace {

namespace fs = std::filesystem;

TEST(OutputShards, file_has_its_final_name_only_after_commit) {
  const testing::TemporaryFolder folder;
  testing::sample_model().write(folder / "in");
  const ModelPlan plan = take(make_model_plan(testing::options_for(folder, Format::mxfp4)));
  fs::create_directories(folder / "out");
  const fs::path final_path = folder / "out" / fs::path(plan.model.shards[1].name);
  {
    OutputShards shards(plan, folder / "out");
    shards.expect(1, 2);
    const std::uint8_t bytes[] = {1, 2, 3};
    shards.write(1, 5, bytes);
    EXPECT_FALSE(shards.finish_unit(1));
    EXPECT_TRUE(fs::exists(partial_path(final_path)));
    EXPECT_FALSE(fs::exists(final_path));
    EXPECT_TRUE(shards.finish_unit(1));
    EXPECT_EQ(shards.commit(1), final_path);
  }
  EXPECT_TRUE(fs::exists(final_path));
  EXPECT_FALSE(fs::exists(partial_path(final_path)));
  EXPECT_EQ(fs::file_size(final_path), plan.shards[1].layout.file_size);
  EXPECT_EQ(testing::read_file(final_path).substr(5, 3), "\1\2\3");
}

TEST(OutputShards, unfinished_file_is_taken_away) {
  const testing::TemporaryFolder folder;
  testing::sample_model().write(folder / "in");
  const ModelPlan plan = take(make_model_plan(testing::options_for(folder, Format::mxfp4)));
  fs::create_directories(folder / "out");
  {
    OutputShards shards(plan, folder / "out");
    shards.write(0, 0, std::vector<std::uint8_t>{1});
  }
  EXPECT_TRUE(fs::is_empty(folder / "out"));
}

}  // namespace
}  // namespace microscale
