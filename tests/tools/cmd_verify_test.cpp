// verify: what it prints and how it ends.
#include <gtest/gtest.h>

#include "tools/checkpoint_folders.hpp"

namespace microscale::testing {
namespace {

TEST(Verify, ends_with_one_when_something_is_wrong) {
  const Folders folders;
  const Outcome good = microscale({"verify", folders.quantized()});
  EXPECT_EQ(good.code, 0);
  EXPECT_NE(good.out.find("21 tensors, 6 quantized modules"), std::string::npos) << good.out;
  EXPECT_NE(good.out.find("nothing is wrong"), std::string::npos);
  const Outcome bad = microscale({"verify", folders.broken()});
  EXPECT_EQ(bad.code, 1);
  EXPECT_NE(bad.out.find("error: model.safetensors: '" + std::string(down) +
                         ".weight_scale': row 0, block 0: the scale is NaN (0x7F)"),
            std::string::npos)
      << bad.out;
  const Json json = Json::parse(microscale({"verify", folders.broken(), "--json"}).out);
  EXPECT_EQ(json["errors"], 1);
  EXPECT_EQ(json["findings"][0]["rule"], "scale-not-finite");
  EXPECT_EQ(json["findings"][0]["tensor"], std::string(down) + ".weight_scale");
  EXPECT_EQ(microscale({"verify", folders.nowhere()}).code, 4);
}

}  // namespace
}  // namespace microscale::testing
