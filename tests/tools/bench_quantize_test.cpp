// bench quantize: its cases, and the members that others read.
#include <gtest/gtest.h>

#include "tools/bench_runs.hpp"

namespace microscale::testing {
namespace {

TEST(BenchQuantize, has_the_rates_that_a_comparison_with_others_reads) {
  const Json table = table_of(quick("quantize", {"--json", "--filter", "f32 to"}));
  ASSERT_EQ(table["cases"].size(), 3u);
  for (const Json& row : table["cases"]) {
    const double dense = row["dense_gb_per_s"];
    EXPECT_GT(dense, 0);
    EXPECT_LT(dense, row["bytes_per_second"].get<double>() / 1e9) << row;
    EXPECT_GT(row["memcpy_gb_per_s"].get<double>(), 0);
    EXPECT_EQ(row["limit"], "loop");
  }
}

}  // namespace
}  // namespace microscale::testing
