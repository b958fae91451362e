// bench attention: right results, and cases that say what they read.
#include <gtest/gtest.h>

#include "cpu_attention.hpp"
#include "gpu_attention.hpp"
#include "gpu_attention_prefill.hpp"
#include "microscale/cuda.hpp"
#include "tools/bench_runs.hpp"

namespace microscale::testing {
namespace {

TEST(BenchAttention, holds_decoding_to_its_sums) {
  const Json table = table_of(quick("attention", {"--json", "--filter", "decode"}));
  EXPECT_EQ(table["cases"].size(), 10u);
  for (const Json& row : table["cases"]) {
    if (row["case"].get<std::string>().find("bf16 1 x") != std::string::npos) continue;  // dense
    EXPECT_GT(row["error_of_bound"].get<double>(), 0) << row;  // rounding leaves something
    EXPECT_LE(row["error_of_bound"].get<double>(), 1) << row;
  }
}

TEST(BenchAttention, counts_the_bytes_that_a_case_reads) {
  const std::vector<bench::AttentionCase> cases = bench::cpu_attention_cases(false);
  EXPECT_EQ(cases[0].bytes(), 2.0 * 8 * 32768 * 72);
  EXPECT_EQ(cases[0].operations(), 4.0 * 32 * 128 * 32768);
  for (const bench::AttentionCase& c : cases) {
    if (c.window > 0) {
      EXPECT_EQ(c.bytes(), 2.0 * 8 * static_cast<double>(c.window) * 72) << c.name;
    }
    if (c.recent > 0) {
      EXPECT_EQ(c.bytes(), cases[0].bytes() + 2.0 * 8 * 64 * (256 - 72)) << c.name;
    }
    if (c.dense) {
      EXPECT_EQ(c.bytes(), 2.0 * 8 * static_cast<double>(c.length) * 256) << c.name;
    }
  }
}

TEST(BenchAttention, counts_the_bytes_of_a_gpu_as_well) {
  const std::vector<bench::AttentionCase> cases = cuda::gpu_attention_cases(false);
  EXPECT_EQ(cases[0].name, "decode nvfp4 64 x 8k");
  EXPECT_EQ(cases[0].bytes(), 2.0 * 64 * 8 * 8192 * 72);
  EXPECT_EQ(cases[1].bytes(), cases[0].bytes());
}

TEST(BenchAttention, counts_the_operations_of_prefill) {
  const std::vector<cuda::PrefillCase> cases = cuda::gpu_prefill_cases(false);
  EXPECT_EQ(cases[0].name, "prefill nvfp4 4k");
  EXPECT_EQ(cases[0].operations(), 2.0 * 32 * 128 * 4096 * 4096);
  EXPECT_EQ(cases[0].bytes(), 32.0 * 4096 * (3 * 72 + 256));
  EXPECT_EQ(cases[1].operations(), 16 * cases[0].operations());
}

TEST(BenchAttention, says_where_there_is_no_gpu) {
  if (cuda::device_count() > 0) GTEST_SKIP() << "there is a GPU; scripts/gpu_check times it";
  const Outcome outcome = microscale({"bench", "attention", "--quick", "--backend", "cuda"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.err.find("--backend cuda"), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace microscale::testing
