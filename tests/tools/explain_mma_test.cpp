// explain mma: its JSON against the formulas, the probe, the pictures in docs/figures, bad input.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "support/paths.hpp"
#include "tools/explained.hpp"

namespace microscale::testing {
namespace {

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(ExplainMma, holds_every_element_once) {
  const Json json = explained({"mma", "mxf4nvf4", "m16n8k64"});
  EXPECT_EQ(json["a"].size(), 16u * 64);
  EXPECT_EQ(json["b"].size(), 64u * 8);
  EXPECT_EQ(json["d"].size(), 16u * 8);
  EXPECT_EQ(json["scales_a"].size(), 16u * 4);
  std::set<std::pair<int, int>> seen;
  for (const Json& each : json["a"]) seen.emplace(each["row"], each["k"]);
  EXPECT_EQ(seen.size(), 16u * 64);
  const Json& entry = json["a"][8 * 4 + 8 + 3];  // lane 1, register 1, the fourth nibble
  EXPECT_EQ(entry["lane"], 1);
  EXPECT_EQ(entry["register"], 1);
  EXPECT_EQ(entry["low_bit"], 12);
  EXPECT_EQ(entry["bits"], 4);
  EXPECT_EQ(entry["row"], 8);
  EXPECT_EQ(entry["k"], 11);
}

TEST(ExplainMma, the_probe_finds_what_the_formulas_say) {
  for (const std::vector<std::string>& what :
       {std::vector<std::string>{"mma", "mxf8f6f4", "m16n8k32", "--elements", "e2m1,e4m3",
                                 "--select-a", "2,1", "--select-b", "3,3"},
        {"mma", "mxf4", "m16n8k64", "--select-a", "2,0"},
        {"mma", "f16", "m16n8k16"},
        {"mma", "s8", "m16n8k32"}}) {
    std::vector<std::string> probing = what;
    probing.push_back("--probe");
    Json probed = explained(probing), formulas = explained(what);
    EXPECT_EQ(probed["derived_by"], "probes");
    EXPECT_EQ(probed["disagreements"], 0);
    probed.erase("derived_by");
    formulas.erase("derived_by");
    EXPECT_EQ(probed, formulas);
  }
}

TEST(ExplainMma, of_tcgen05_says_bytes_lanes_and_columns) {
  const Json json = explained({"mma", "mxf4nvf4", "m128n64k64"});
  EXPECT_EQ(json["instruction"], "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.block16");
  EXPECT_EQ(json["instruction_descriptor"], 0x8100480);
  EXPECT_EQ(json["a"].size(), 128u * 2);
  const Json& chunk =
      json["a"][2 * 11 + 1];  // row 11, k 32: the swizzle's row 3 turns chunk 1 to 2
  EXPECT_EQ(chunk["row"], 11);
  EXPECT_EQ(chunk["k"], 32);
  EXPECT_EQ(chunk["byte"], 1024 + 3 * 128 + 2 * 16);
  const Json& scale = json["scales_a"][4 * 77 + 3];
  EXPECT_EQ(scale["lane"], 77 % 32);
  EXPECT_EQ(scale["column"], 2);
  EXPECT_EQ(scale["byte"], 3);
  const Json pair = explained({"mma", "f16", "m256n128k16"});
  EXPECT_EQ(pair["instruction"], "tcgen05.mma.cta_group::2.kind::f16");
  EXPECT_EQ(pair["b"].size(), 64u * 2);
  EXPECT_FALSE(pair.contains("scales_a"));
  EXPECT_EQ(explained({"mma", "mxf8f6f4", "m128n8k32", "--elements", "e4m3,e2m1"})["b_elements"],
            "e2m1");
}

TEST(ExplainMma, containers_and_selectors_show) {
  const Json json = explained({"mma", "mxf8f6f4", "m16n8k32", "--select-b", "1,2"});
  EXPECT_EQ(json["a"][0]["low_bit"], 2);
  EXPECT_EQ(json["a"][0]["bits"], 4);
  EXPECT_EQ(json["scales_b"][0]["lane"], 2);
  EXPECT_EQ(json["scales_b"][0]["low_bit"], 8);
  EXPECT_EQ(explained({"mma", "mxf8f6f4", "m16n8k32", "--elements", "e3m2"})["a"][0]["bits"], 6);
}

TEST(ExplainMma, prints_tables_and_says_what_is_modelled) {
  const Outcome outcome = microscale({"explain", "mma", "mxf8f6f4", "m16n8k32", "--probe"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  for (const char* text : {"bits 5-2", "Modelled", "0 slots disagree", "7: 28-31", "scales of A"})
    EXPECT_NE(outcome.out.find(text), std::string::npos) << text;
  EXPECT_EQ(microscale({"explain", "mma", "f16", "m16n8k16"}).out.find("Modelled"),
            std::string::npos);
}

TEST(ExplainMma, prints_the_tables_of_tcgen05) {
  const Outcome outcome = microscale({"explain", "mma", "mxf8f6f4", "m256n64k32"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  for (const char* text : {"cta_group::2.kind::mxf8f6f4.block_scale.block32", "3: 16-31",
                           "Modelled", "Two blocks", "127: 0", "scales of B"})
    EXPECT_NE(outcome.out.find(text), std::string::npos) << text;
}

TEST(ExplainMma, the_figures_of_the_documentation_are_its_own) {
  const std::filesystem::path figures =
      std::filesystem::path(microscale::testing::test_data()) / "../docs/figures";
  for (const auto& [kind, shape] :
       {std::pair{"mxf4nvf4", "m16n8k64"}, std::pair{"mxf8f6f4", "m16n8k32"}}) {
    const std::string name = std::string("mma_") + kind + "_" + shape + ".svg";
    const auto path = std::filesystem::path(::testing::TempDir()) / name;
    EXPECT_EQ(microscale({"explain", "mma", kind, shape, "--svg", path.string()}).code, 0);
    EXPECT_TRUE(text_of(path) == text_of(figures / name))
        << "make it again: microscale explain mma " << kind << " " << shape
        << " --svg docs/figures/" << name;
    std::filesystem::remove(path);
  }
}

TEST(ExplainMma, refuses_in_one_sentence) {
  const auto refused = [](std::vector<std::string> words, const std::string& part) {
    words.insert(words.begin(), "explain");
    const Outcome outcome = microscale(words);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_NE(outcome.err.find(part), std::string::npos) << outcome.err;
  };
  refused({"mma"}, "takes a kind and a shape");
  refused({"mma", "mxf3", "m16n8k64"}, "did you mean");
  refused({"mma", "mxf8f6f4", "m16n8k64"}, "m16n8k32");
  refused({"mma", "mxf4", "m16n8k64", "--select-a", "1,0"}, "selector");
  refused({"mma", "f16", "m16n8k16", "--select-a", "0,0"}, "selector");
  refused({"mma", "mxf4", "m16n8k64", "--select-a", "1"}, "--select-a");
  refused({"mma", "mxf8f6f4", "m16n8k32", "--elements", "f16"}, "8, 6 or 4 bits");
  refused({"mma", "mxf4nvf4", "m128n64k32"}, "K of this kind is 64");
  refused({"mma", "f16", "m128n8k16"}, "in steps of 16");
  refused({"mma", "s8", "m128n64k32"}, "has no kind 's8'");
  refused({"mma", "mxf4", "m128n64k64", "--elements", "e4m3"}, "no elements 'e4m3'");
  refused({"mma", "mxf4", "m128n64k64x"}, "is no shape");
  refused({"mma", "mxf4", "m128n64k64", "--probe"}, "of 16 rows");
  EXPECT_EQ(microscale({"explain", "mma", "f16", "m16n8k16", "--svg", "/nowhere/at/all.svg"}).code,
            4);
}

}  // namespace
}  // namespace microscale::testing
