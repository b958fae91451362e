// bench: what it leaves out and refuses, one device or all, and that Ctrl-C keeps what is finished.
#include <gtest/gtest.h>

#include "microscale/cuda.hpp"
#include "tools/bench_runs.hpp"

namespace microscale::testing {
namespace {

TEST(Bench, times_only_what_the_filter_leaves) {
  const Json table = table_of(quick("quantize", {"--json", "--filter", "mxfp8 to"}));
  ASSERT_EQ(table["cases"].size(), 1u);
  EXPECT_EQ(table["cases"][0]["case"], "mxfp8 to bf16");
  const Outcome nothing = microscale(quick("matmul", {"--filter", "mxfp5"}));
  EXPECT_EQ(nothing.code, 2);
  EXPECT_NE(nothing.err.find("leaves no case"), std::string::npos) << nothing.err;
}

TEST(Bench, refuses_what_it_cannot_time) {
  EXPECT_EQ(microscale({"bench"}).code, 2);
  EXPECT_NE(microscale({"bench", "matmull"}).err.find("did you mean matmul?"), std::string::npos);
  for (const Words& words : {Words{"bench", "attentions"},
                             {"bench", "quantize", "--size", "1000"},
                             {"bench", "quantize", "--backend", "gpu"},
                             {"bench", "quantize", "--tasks"},
                             {"bench", "quantize", "--plan"},
                             {"bench", "matmul", "--plan", "--quick"},
                             {"bench", "attention", "--plan", "--filter", "decode"},
                             {"bench", "matmul", "--backend", "cuda", "--runs", "3"},
                             {"bench", "quantize", "--rotate-mib", "1"},
                             {"bench", "matmul", "--size", "1MiB"},
                             {"bench", "matmul", "--runs", "0"},
                             {"bench", "matmul", "--rotate-mib", "x"},
                             {"bench", "matmul", "--device", "cuda:all"}}) {
    const Outcome outcome = microscale(words);
    EXPECT_EQ(outcome.code, 2) << words.back();
    EXPECT_EQ(lines_of(outcome.err).size(), 1u) << outcome.err;
    EXPECT_EQ(outcome.out, "");
  }
}

TEST(Bench, keeps_what_is_finished_when_interrupted) {
  const std::string start = "\"$microscale\" bench matmul --quick --backend cpu --runs 300 ";
  const Outcome json = bash(start + "--json & sleep 0.2; kill -TERM $!; wait $!");
  EXPECT_EQ(json.code, 130);
  const Json document = Json::parse(json.out);
  EXPECT_EQ(document["interrupted"], true);
  for (const Json& table : document["tables"])
    for (const Json& row : table["cases"]) EXPECT_GT(row["seconds"], 0) << row;
  const Outcome text = bash(start + "& sleep 0.2; kill -TERM $!; wait $!");
  EXPECT_EQ(text.code, 130);
  EXPECT_NE(text.err.find("finished before"), std::string::npos) << text.err;
}

TEST(Bench, says_that_there_is_no_gpu) {
  if (cuda::device_count() > 0) GTEST_SKIP() << "there is a GPU; scripts/gpu_check times it";
  for (const char* option : {"--backend", "--device"}) {
    const Outcome outcome = microscale({"bench", "quantize", option, "cuda"});
    EXPECT_EQ(outcome.code, 2);
    EXPECT_NE(outcome.err.find("use --backend cpu"), std::string::npos) << outcome.err;
    EXPECT_EQ(outcome.out, "");
  }
  const Words everything{"bench", "matmul", "--quick", "--filter", "gemv", "--tasks"};
  const Outcome outcome = microscale(everything);
  EXPECT_EQ(outcome.code, 0);
  EXPECT_NE(outcome.out.find("No GPU is timed: "), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("gemv, geometric mean"), std::string::npos) << outcome.out;
}

}  // namespace
}  // namespace microscale::testing
