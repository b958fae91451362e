// bench matmul: right results, the equal plain products, article 002's tasks.
#include <gtest/gtest.h>

#include <map>

#include "tools/bench_runs.hpp"

namespace microscale::testing {
namespace {

TEST(BenchMatmul, holds_sampled_elements_of_every_product_to_their_sums) {
  for (const Words& which : {Words{"--json"}, Words{"--json", "--tasks"}}) {
    const Json table = table_of(quick("matmul", which));
    for (const Json& row : table["cases"]) {
      if (row.contains("geometric_mean")) continue;
      EXPECT_GT(row["error_of_bound"].get<double>(), 1e-4) << row;  // rounding leaves something
      EXPECT_LE(row["error_of_bound"].get<double>(), 1) << row;
    }
  }
}

TEST(BenchMatmul, has_the_equal_plain_product_beside_gated_and_grouped) {
  int beside = 0;
  const Json table = table_of(quick("matmul", {"--json", "--filter", "nvfp4 "}));
  for (const Json& row : table["cases"])
    if (row.contains("beside")) {
      EXPECT_EQ(row["beside"][0]["what"], "of plain");
      EXPECT_GT(row["beside"][0]["seconds"].get<double>(), 0);
      ++beside;
    }
  EXPECT_EQ(beside, 3);
}

TEST(BenchMatmul, has_every_shape_of_the_four_tasks_and_their_means) {
  const Json table = table_of(quick("matmul", {"--json", "--tasks"}));
  int cases = 0;
  std::map<std::string, double> best;
  for (const Json& row : table["cases"]) {
    cases += !row.contains("geometric_mean");
    EXPECT_GT(row["limit_seconds"].get<double>(), 0) << row;
    if (row.contains("geometric_mean")) best[row["case"]] = row["beside"][1]["seconds"];
  }
  EXPECT_EQ(cases, 3 + 3 + 4 + 4);
  EXPECT_EQ(best.size(), 4u);
  EXPECT_DOUBLE_EQ(best["gemv, geometric mean"], 18.55e-6);
  EXPECT_DOUBLE_EQ(best["group, geometric mean"], 13.09e-6);
}

TEST(BenchMatmul, means_only_a_task_that_is_complete) {
  const Json table = table_of(quick("matmul", {"--json", "--tasks", "--filter", "L2"}));
  EXPECT_EQ(table["cases"].size(), 2u);
  for (const Json& row : table["cases"]) EXPECT_FALSE(row.contains("geometric_mean")) << row;
}

}  // namespace
}  // namespace microscale::testing
