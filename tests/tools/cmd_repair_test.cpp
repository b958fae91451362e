// repair: what it prints and how it ends.
#include <gtest/gtest.h>

#include "tools/checkpoint_folders.hpp"

namespace microscale::testing {
namespace {

TEST(Repair, writes_a_folder_that_passes_verify) {
  SmallModel model = small_llama(Format::nvfp4);
  const std::string up = "model.layers.0.mlp.up_proj";
  model.add_quantized(up, Format::nvfp4, 64, 64, gaussian(64 * 64, 5),
                      nvfp4_global_scale(0.125f) / 4);
  const TemporaryFolder folder;
  model.write(folder / "in");
  const std::string in = (folder / "in").string(), out = (folder / "out").string();
  EXPECT_EQ(microscale({"verify", in}).code, 1);
  const Outcome none = microscale({"repair", in});
  EXPECT_EQ(none.code, 2);
  EXPECT_NE(none.err.find("no output folder was named"), std::string::npos) << none.err;
  const Outcome dry = microscale({"repair", in, "--dry-run"});
  EXPECT_EQ(dry.code, 0);
  EXPECT_NE(dry.out.find("would be done: gave 1 fused layer one global scale each"),
            std::string::npos)
      << dry.out;
  EXPECT_NE(dry.out.find("Nothing was written."), std::string::npos);
  const Outcome done = microscale({"repair", in, "-o", out});
  EXPECT_EQ(done.code, 0);
  EXPECT_NE(done.out.find("Of 256 blocks under another global scale, 256 stand for the same values "
                          "and 0 changed"),
            std::string::npos)
      << done.out;
  EXPECT_EQ(microscale({"verify", out}).code, 0);
  const Json json = Json::parse(microscale({"repair", out, "--dry-run", "--json"}).out);
  EXPECT_EQ(json["written"], false);
  EXPECT_EQ(json["changes"], Json::array());
  EXPECT_EQ(microscale({"repair", in, "-o", out}).code, 2);
  const Folders folders;
  EXPECT_EQ(microscale({"repair", folders.broken(), "-o", out + "2"}).code, 3);
}

}  // namespace
}  // namespace microscale::testing
