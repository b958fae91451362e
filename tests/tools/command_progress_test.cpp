// Progress on standard error: where it begins and that it reaches the end.
#include <gtest/gtest.h>

#include "tools/checkpoint_folders.hpp"

namespace microscale::testing {
namespace {

TEST(CommandProgress, begins_at_nothing_and_ends_with_all) {
  const Folders folders;
  const std::string model = folders.quantized(), dense = folders.dense();
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"dequantize", model, "-o", dense},
           {"verify", model},
           {"compare", dense, model},
           {"quantize", dense, "-o", folders.nowhere(), "--format", "mxfp4"}}) {
    std::vector<std::string> with_json = words;
    with_json.push_back("--json");
    const Outcome run = microscale(with_json);
    ASSERT_EQ(run.code, 0) << run.err;
    const std::vector<std::string> events = lines_of(run.err);
    const Json first = Json::parse(events.front()), last = Json::parse(events.back());
    EXPECT_EQ(first["bytes_done"], 0) << run.err;
    EXPECT_EQ(last["bytes_done"], last["bytes_total"]) << run.err;
    EXPECT_GT(last["bytes_total"], 0) << run.err;
  }
}

}  // namespace
}  // namespace microscale::testing
