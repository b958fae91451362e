#include "checkpoint/dense_output.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "checkpoint/small_model.hpp"

namespace microscale {
namespace {

using testing::fails_with;
using testing::TemporaryFolder;

ModelFolder opened(const std::filesystem::path& folder) {
  testing::SmallModel model;
  model.add_floats("a", {1}, {1.0f});
  model.write(folder);
  return take(open_model_folder(folder));
}

TEST(DenseOutput, is_marked_until_it_is_finished) {
  TemporaryFolder folder;
  const ModelFolder input = opened(folder / "in");
  const auto out = folder / "new" / "out";
  ASSERT_TRUE(testing::succeeds(begin_dense_output(input, true, out, 10)));
  EXPECT_TRUE(std::filesystem::exists(out / dequantize_marker));
  ASSERT_TRUE(testing::succeeds(begin_dense_output(input, true, out, 10)));  // taken over
  ASSERT_TRUE(testing::succeeds(finish_dense_output(out)));
  EXPECT_TRUE(std::filesystem::is_empty(out));
}

TEST(DenseOutput, wants_room_before_it_begins) {
  TemporaryFolder folder;
  const ModelFolder input = opened(folder / "in");
  EXPECT_TRUE(fails_with(
      begin_dense_output(input, true, folder / "out", std::numeric_limits<std::uint64_t>::max()),
      "needs 18446744073709551615 bytes and the disk has"));
  EXPECT_FALSE(std::filesystem::exists(folder / "out" / dequantize_marker));
}

TEST(DenseOutput, of_a_changed_input_is_not_taken_over) {
  TemporaryFolder folder;
  ASSERT_TRUE(
      testing::succeeds(begin_dense_output(opened(folder / "in"), true, folder / "out", 10)));
  testing::SmallModel model;
  model.add_floats("a", {2}, {1.0f, 2.0f});
  model.write(folder / "in");
  const ModelFolder changed = take(open_model_folder(folder / "in"));
  EXPECT_TRUE(fails_with(begin_dense_output(changed, true, folder / "out", 10), "is not empty"));
}

TEST(DenseOutput, a_folder_that_cannot_be_made_is_an_io_failure) {
  TemporaryFolder folder;
  const ModelFolder input = opened(folder / "in");
  testing::write_file(folder / "file", "");
  const Status status = begin_dense_output(input, true, folder / "file" / "out", 10);
  ASSERT_TRUE(fails_with(status, "cannot be made"));
  EXPECT_EQ(status.failure().code, ErrorCode::io);
}

TEST(DenseOutput, names_the_run_that_did_not_finish) {
  TemporaryFolder folder;
  EXPECT_EQ(unfinished_run(opened(folder / "in")), std::nullopt);
  testing::write_file(folder / "in" / dequantize_marker, "");
  EXPECT_EQ(unfinished_run(take(open_model_folder(folder / "in"))), dequantize_marker);
  std::filesystem::remove(folder / "in" / dequantize_marker);
  testing::write_file(folder / "in" / ".microscale-journal", "");
  EXPECT_EQ(unfinished_run(take(open_model_folder(folder / "in"))), ".microscale-journal");
}

TEST(DenseOutput, a_run_that_was_killed_before_its_marker_leaves_an_empty_folder) {
  TemporaryFolder folder;
  const ModelFolder input = opened(folder / "in");
  testing::write_file(folder / "out" / (std::string(dequantize_marker) + ".partial"), "");
  EXPECT_TRUE(testing::succeeds(begin_dense_output(input, true, folder / "out", 10)));
}

}  // namespace
}  // namespace microscale
