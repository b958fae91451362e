// ptx explain: roles, addresses and verdicts of a listing, as text and as JSON.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "support/paths.hpp"
#include "tools/subprocess.hpp"

namespace microscale::testing {
namespace {

std::string written(const std::string& name, const std::string& text) {
  const auto path =
      std::filesystem::temp_directory_path() / (name + std::to_string(::getpid()) + ".ptx");
  std::ofstream(path) << text;
  return path.string();
}

const std::string copy_kernel =
    ".version 9.0\n.target sm_90a\n.address_size 64\n.entry copy(.param .u64 from) {\n.reg .b32 "
    "%r<3>;\n"
    ".reg .b64 %rd<4>;\nld.param.u64 %rd1, [from];\nmov.u32 %r1, %tid.x;\nmul.wide.u32 %rd2, %r1, "
    "4;\n"
    "add.s64 %rd3, %rd1, %rd2;\nld.global.b32 %r2, [%rd3];\nret;\n}\n";

TEST(PtxExplain, says_what_a_listing_does_without_running_it) {
  const std::string path = written("copy", copy_kernel);
  const Outcome text = microscale({"ptx", "explain", path});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_NE(text.out.find("index arithmetic  mul.wide.u32"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("address 4*%tid.x + [from]\n"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("4 bytes to the next lane; coalesced: 4 sectors"), std::string::npos)
      << text.out;
  const auto json = nlohmann::json::parse(microscale({"ptx", "explain", path, "--json"}).out);
  EXPECT_EQ(json["functions"][0]["instructions"][4]["lane_stride"], "4");
  EXPECT_EQ(json["functions"][0]["instructions"][4]["line"], 11);
  std::filesystem::remove(path);
}

TEST(PtxExplain, takes_the_shape_of_the_block) {
  const std::string path = written("block", copy_kernel);
  const auto stride = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"ptx", "explain", path, "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return nlohmann::json::parse(microscale(words).out)["functions"][0]["instructions"][4];
  };
  EXPECT_EQ(stride({})["lane_stride"], "4");
  EXPECT_EQ(stride({"--block", "8,8"})["lane_stride"], "4 (28 of 31), -28 (3 of 31)");
  EXPECT_EQ(microscale({"ptx", "explain", path, "--block", "8,8,8,8"}).code, 2);
  EXPECT_NE(microscale({"ptx", "explain", path}).err.find("--block says the block's shape"),
            std::string::npos);
  std::filesystem::remove(path);
}

TEST(PtxExplain, takes_a_listing_through_a_pipe) {
  const std::string path = microscale::testing::test_data() + "/tools/transpose.ptx";
  const Outcome piped = bash("\"$microscale\" ptx explain <(cat '" + path + "')");
  EXPECT_EQ(piped.code, 0) << piped.err;
  EXPECT_EQ(piped.out, microscale({"ptx", "explain", path}).out);
}

TEST(PtxExplain, heeds_the_kernel_and_refuses_options_of_a_launch) {
  const std::string path = microscale::testing::test_data() + "/tools/transpose.ptx";
  const Outcome one = microscale({"ptx", "explain", path, "--kernel", "tiled<33", "--json"});
  ASSERT_EQ(one.code, 0) << one.err;
  EXPECT_EQ(nlohmann::json::parse(one.out)["functions"].size(), 1u);
  const std::pair<std::vector<std::string>, std::string> mistakes[] = {
      {{"--kernel", "absent"}, "no function here is called; choose one of levels::naive"},
      {{"--grid", "4"}, "--grid is of ptx run and profile; leave it out of ptx explain"},
      {{"--html", "page.html"}, "--html is of ptx profile; leave it out of ptx explain"},
      {{"--arg", "u32:1"}, "--arg is of ptx run and profile"}};
  for (const auto& [more, says] : mistakes) {
    std::vector<std::string> words = {"ptx", "explain", path};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = microscale(words);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_NE(outcome.err.find(says), std::string::npos) << outcome.err;
  }
  EXPECT_EQ(microscale({"ptx", "run", path, "--watch", "1:1"}).code, 2);
}

TEST(PtxExplain, says_what_is_wrong_with_its_input) {
  const std::string path =
      written("broken", ".version 9.0\n.target sm_90a\n.entry k() { mov.b32 %r1, 0; }\n");
  const Outcome broken = microscale({"ptx", "explain", path});
  EXPECT_EQ(broken.code, 3);
  EXPECT_NE(broken.err.find("PTX line 3, column 22: unknown name '%r1'"), std::string::npos)
      << broken.err;
  std::filesystem::remove(path);
  EXPECT_EQ(microscale({"ptx", "explain", path}).code, 4);
  const Outcome action = microscale({"ptx", "explian", path});
  EXPECT_EQ(action.code, 2);
  EXPECT_NE(action.err.find("did you mean explain"), std::string::npos) << action.err;
}

}  // namespace
}  // namespace microscale::testing
