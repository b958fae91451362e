// bench matmul: right results, the equal plain products, the tasks of "Twelve Attempts".
#include <gtest/gtest.h>

#include <map>

#include "matmul_operands.hpp"
#include "tools/bench_runs.hpp"

namespace microscale::testing {
namespace {

TEST(BenchMatmul, holds_sampled_elements_of_every_product_to_their_sums) {
  for (const Words& which : {Words{"--json"}, Words{"--json", "--tasks"}}) {
    const Json table = table_of(quick("matmul", which));
    int products = 0;
    for (const Json& row : table["cases"]) {
      if (row.contains("geometric_mean")) continue;
      ++products;
      EXPECT_GT(row["error_of_bound"].get<double>(), 0) << row;  // rounding leaves something
      EXPECT_LE(row["error_of_bound"].get<double>(), 1) << row;
    }
    EXPECT_GE(products, 10);
  }
}

/// The error that the check finds in a product of `c`, one element of each row of activations being
/// zero (0x0000 of BF16) where `spoiled`.
double error_of(const bench::MatmulCase& c, bool spoiled) {
  const bench::MatmulOperands operands(c);
  std::vector<std::uint8_t> input(operands.input().data(),
                                  operands.input().data() + operands.input().size());
  for (std::int64_t row = 0; spoiled && row < c.rows(); ++row)
    for (std::int64_t byte = 0; byte < 2; ++byte)
      input[static_cast<std::size_t>((row * c.k + 7) * 2 + byte)] = 0;
  std::vector<std::uint16_t> output(static_cast<std::size_t>(c.rows() * c.n));
  bench::MatmulOperandsView view{
      .a = operands.input_in(input.data()),
      .b = operands.weights_in(operands.weights().data(), 0),
      .d = MutableTensorView{output.data(), c.output, c.rows(), c.n, c.n},
      .offsets = operands.offsets().data()};
  if (c.sides() == 2) view.up = operands.weights_in(operands.weights().data(), 1);
  multiply(c, view, {.threads = 1});
  return worst_sampled_error(c, operands, static_cast<double>(c.k + 8) * 0x1p-24,
                             [&](std::int64_t i) { return output[static_cast<std::size_t>(i)]; });
}

TEST(BenchMatmul, finds_a_single_element_missing_in_every_sum) {
  using enum bench::ProductKind;
  for (bench::MatmulCase c :
       {bench::MatmulCase{.kind = plain}, {.kind = gated}, {.kind = grouped}}) {
    c.m = 5;
    c.n = 48;
    c.k = 448;
    if (c.kind == grouped) c.groups = {2, 0, 3};
    EXPECT_LE(error_of(c, false), 1);
    EXPECT_GT(error_of(c, true), 1);
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
  const Json table = table_of(quick("matmul", {"--json", "--tasks", "--filter", "L8"}));
  EXPECT_EQ(table["cases"].size(), 1u);
  for (const Json& row : table["cases"]) EXPECT_FALSE(row.contains("geometric_mean")) << row;
}

TEST(BenchMatmul, prints_plans_without_a_gpu) {
  const Outcome text = microscale({"bench", "matmul", "--plan"});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_NE(text.out.find("rtx5090, 170 multiprocessors"), std::string::npos) << text.out;
  const Json document = Json::parse(microscale({"bench", "matmul", "--plan", "--json"}).out);
  ASSERT_EQ(document["gpus"].size(), 3u);
  for (const Json& gpu : document["gpus"])
    for (const Json& plan : gpu["plans"]) EXPECT_LE(plan["first_m"], plan["last_m"]) << plan;
}

}  // namespace
}  // namespace microscale::testing
