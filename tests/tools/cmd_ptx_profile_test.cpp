// ptx profile on the naive and the tiled transposes: sectors, bank conflicts, the table, the page.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "report/markup_check.hpp"
#include "tools/ptx_files.hpp"
#include "tools/subprocess.hpp"

namespace microscale::testing {
namespace {

nlohmann::json profiled(const std::string& kernel) {
  std::vector<std::string> words = transpose_words("profile", kernel);
  words.push_back("--json");
  const Outcome outcome = microscale(words);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  return nlohmann::json::parse(outcome.out);
}

TEST(PtxProfile, shows_32_store_sectors_in_the_naive_transpose_and_4_in_the_tiled_ones) {
  const auto naive = profiled("naive");
  EXPECT_EQ(naive["total"]["global_stores"]["requests"], 192);
  EXPECT_EQ(naive["total"]["global_stores"]["sectors"], 192 * 32);
  EXPECT_EQ(naive["total"]["global_stores"]["ideal_sectors"], 192 * 4);
  EXPECT_EQ(naive["total"]["global_loads"]["sectors"], 192 * 4);
  for (const char* tiled : {"tiled<32", "tiled<33"}) {
    const auto json = profiled(tiled);
    EXPECT_EQ(json["total"]["global_stores"]["sectors"], 192 * 4);
    EXPECT_EQ(json["total"]["global_loads"]["sectors"], 192 * 4);
  }
}

TEST(PtxProfile, shows_no_conflict_at_a_row_pitch_of_132_bytes_and_31_at_128) {
  EXPECT_EQ(profiled("tiled<33")["total"]["shared"]["bank_conflicts"], 0);
  const auto json = profiled("tiled<32");
  EXPECT_EQ(json["total"]["shared"]["bank_conflicts"], 192 * 31);
  for (const auto& line : json["lines"])
    if (line["place"] == "transpose.cu:56") {
      EXPECT_EQ(line["shared"]["bank_conflicts"], 192 * 31);
    }
}

TEST(PtxProfile, counts_lines_classes_and_special_registers) {
  const auto json = profiled("naive");
  EXPECT_EQ(json["special_registers"], nlohmann::json({"%ctaid.x", "%ctaid.y", "%tid.x"}));
  std::uint64_t executed = 0, instructions = 0, stores = 0;
  for (const auto& each : json["classes"]) {
    executed += each["warp_executions"].get<std::uint64_t>();
    instructions += each["instructions"].get<std::uint64_t>();
    if (each["class"] == "store global") stores += each["warp_executions"].get<std::uint64_t>();
  }
  EXPECT_EQ(stores, 192u);
  EXPECT_EQ(executed, json["warp_instructions"]);
  EXPECT_EQ(instructions, json["instructions"].size());
  EXPECT_EQ(json["lines"][1]["place"], "transpose.cu:34");
  EXPECT_EQ(json["lines"][1]["text"], "__global__ void naive(Args args) {");
}

TEST(PtxProfile, fits_a_narrow_terminal) {
  for (const unsigned short columns : {40, 80, 120}) {
    const Outcome outcome = microscale_on_terminal(transpose_words("profile", "tiled<33"), columns,
                                                   {{"NO_COLOR", "1"}});
    EXPECT_EQ(outcome.code, 0);
    for (const std::string& line : lines_of(outcome.out))
      EXPECT_LE(line.size(), std::size_t{columns}) << line;
  }
}

TEST(PtxProfile, writes_a_page_that_is_whole) {
  const Scratch scratch;
  std::vector<std::string> words = transpose_words("profile", "naive");
  words.insert(words.end(), {"--html", scratch.file("page.html"), "--watch", "2:5"});
  const Outcome outcome = microscale(words);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  std::ifstream file(scratch.file("page.html"));
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(markup_error(page), "");
  EXPECT_EQ(page.find("http"), page.find("http://www.w3.org/2000/svg"))
      << "the page asks for something";
  EXPECT_NE(page.find("32 sectors of 32 bytes, where 4 would do"), page.npos);
  EXPECT_NE(page.find("output_of(args)[col * args.rows + row]"), page.npos);
  EXPECT_NE(page.find("Block 2, warp 5: 32 of its 32 steps are kept"), page.npos);
  words.back() = "2-5";
  EXPECT_EQ(microscale(words).code, 2);
}

}  // namespace
}  // namespace microscale::testing
