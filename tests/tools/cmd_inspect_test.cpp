// inspect: what it prints and how it ends.
#include <gtest/gtest.h>

#include <cmath>

#include "tools/checkpoint_folders.hpp"

namespace microscale::testing {
namespace {

TEST(Inspect, lists_tensors_or_shows_one) {
  const Folders folders;
  const Outcome all = microscale({"inspect", folders.quantized()});
  EXPECT_EQ(all.code, 0);
  EXPECT_NE(all.out.find("9 tensors in 1 file"), std::string::npos) << all.out;
  EXPECT_NE(all.out.find("24,576 elements, 4.51 bits each"), std::string::npos) << all.out;
  const Outcome one = microscale({"inspect", folders.quantized(), down});
  EXPECT_EQ(one.code, 0);
  EXPECT_NE(one.out.find("Block scales (256 blocks)"), std::string::npos) << one.out;
  EXPECT_NE(one.out.find("First block"), std::string::npos);
  // By value, from -6 over -0 and 0 to 6.
  const std::string codes = one.out.substr(one.out.find("Element codes"));
  EXPECT_LT(codes.find("0x0F           -6"), codes.find("0x08           -0"));
  EXPECT_LT(codes.find("0x08           -0"), codes.find("0x00            0"));
  EXPECT_LT(codes.find("0x00            0"), codes.find("0x07            6"));
  EXPECT_NE(codes.find("0x07            6"), std::string::npos);
  const Json json = Json::parse(microscale({"inspect", folders.quantized(), down, "--json"}).out);
  EXPECT_EQ(json["format"], "nvfp4");
  EXPECT_EQ(json["first_block"]["codes"].size(), 16u);
  EXPECT_EQ(Json::parse(microscale({"inspect", folders.quantized(), "--json"}).out)["elements"],
            6 * 4096 + 2 * 1024 + 64);
  const Outcome missing = microscale({"inspect", folders.quantized(), "down_proj"});
  EXPECT_EQ(missing.code, 2);
  EXPECT_NE(missing.err.find("there is '" + std::string(down) + ".weight'"), std::string::npos);
}

TEST(Inspect, calls_a_nan_by_its_name) {
  SmallModel model;
  model.add_floats("w\u00e9ights", {2}, {NAN, -1.397f});
  const TemporaryFolder folder;
  model.write(folder.path());
  const Outcome outcome = microscale({"inspect", folder.path().string(), "w\u00e9ights"});
  EXPECT_NE(outcome.out.find("first values: NaN -1.397"), std::string::npos) << outcome.out;
  const Folders folders;
  const Outcome block = microscale({"inspect", folders.broken(), down});
  EXPECT_NE(block.out.find("scale 0x7F, one step is NaN"), std::string::npos) << block.out;
  // A pipe takes names as the locale has them.
  EXPECT_NE(outcome.out.find("w\u00e9ights"), std::string::npos) << outcome.out;
  EXPECT_NE(
      microscale({"inspect", folder.path().string()}, "", {{"LC_ALL", "C"}}).out.find("w?ights"),
      std::string::npos);
}

}  // namespace
}  // namespace microscale::testing
