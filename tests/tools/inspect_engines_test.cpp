// inspect --engines: what it prints.
#include <gtest/gtest.h>

#include "tools/checkpoint_folders.hpp"

namespace microscale::testing {
namespace {

TEST(InspectEngines, says_who_runs_it_how_and_where_that_stands) {
  const Folders folders;
  const Outcome text = microscale({"inspect", folders.quantized(), "--engines"});
  EXPECT_EQ(text.code, 0);
  for (const char* phrase : {"nvfp4 weights, compressed-tensors", "Blackwell 12.x", "weight-only",
                             "llama.cpp", "converted", "vllm#48199"}) {
    EXPECT_NE(text.out.find(phrase), std::string::npos) << phrase << "\n" << text.out;
  }
  const Json json =
      Json::parse(microscale({"inspect", folders.quantized(), "--engines", "--json"}).out);
  EXPECT_EQ(json["schemes"][0]["engines"].size(), 25u);
  EXPECT_EQ(json["schemes"][0]["engines"][0]["engine"], "vLLM");
  EXPECT_EQ(json["schemes"][0]["engines"][0]["support"], "weight-only");
  EXPECT_EQ(microscale({"inspect", folders.quantized(), down, "--engines"}).code, 2);
}

TEST(InspectEngines, has_nothing_to_say_of_a_dense_model) {
  SmallModel model;
  model.add_floats("a.weight", {2}, {1, 2});
  const TemporaryFolder folder;
  model.write(folder.path());
  EXPECT_EQ(microscale({"inspect", folder.path().string(), "--engines"}).code, 3);
}

}  // namespace
}  // namespace microscale::testing
