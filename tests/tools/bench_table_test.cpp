// The one table of bench: figures that hang together, columns that are filled, narrow terminals.
#include <gtest/gtest.h>

#include "tools/bench_runs.hpp"

namespace microscale::testing {
namespace {

TEST(BenchTable, has_a_rate_and_its_limit_for_every_case) {
  for (const char* operation : {"quantize", "matmul", "attention"}) {
    const Json table = table_of(quick(operation, {"--json"}));
    EXPECT_EQ(table["device"], "cpu");
    EXPECT_EQ(table["threads"], 1);
    EXPECT_GE(table["cases"].size(), 10u);
    for (const Json& row : table["cases"]) {
      const double seconds = row["seconds"], rate = row["bytes_per_second"];
      EXPECT_NEAR(row["share"].get<double>(), row["limit_seconds"].get<double>() / seconds, 1e-9)
          << row;
      EXPECT_NEAR(row["bytes"].get<double>() / seconds, rate, rate * 1e-9) << row;
      EXPECT_GT(row["bytes"].get<double>(), 1000) << row;
    }
  }
}

TEST(BenchTable, prints_a_table_without_empty_columns) {
  const Outcome outcome = microscale(quick("quantize", {"--filter", "mxfp8 to"}));
  EXPECT_EQ(outcome.code, 0);
  for (const char* word : {"case", "GB/s", "% loop", "must", "mxfp8 to bf16", "80 %"})
    EXPECT_NE(outcome.out.find(word), std::string::npos) << outcome.out;
  for (const char* word : {"stretch", "of plain", "floor"})
    EXPECT_EQ(outcome.out.find(word), std::string::npos) << outcome.out;
}

TEST(BenchTable, fits_80_and_60_columns) {
  for (const unsigned short columns : {80, 60})
    for (const Words& more : {Words{"--filter", "nvfp4"}, Words{"--tasks"}}) {
      const Outcome outcome =
          microscale_on_terminal(quick("matmul", more), columns, {{"NO_COLOR", "1"}});
      EXPECT_EQ(outcome.code, 0);
      EXPECT_EQ(outcome.out.find('\x1b'), std::string::npos);
      for (const std::string& line : lines_of(outcome.out)) EXPECT_LE(line.size(), columns) << line;
    }
}

}  // namespace
}  // namespace microscale::testing
