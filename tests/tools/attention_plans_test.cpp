// The plans of docs/attention.md are those that `bench attention --plan` makes today.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "support/paths.hpp"
#include "tools/bench_runs.hpp"

namespace microscale::testing {
namespace {

TEST(AttentionPlans, are_what_the_document_shows) {
  std::ifstream file(microscale::testing::test_data() + "/../docs/attention.md");
  ASSERT_TRUE(file);
  std::ostringstream document;
  document << file.rdbuf();
  const std::string text = document.str(), begin = "```text plans\n";
  const std::size_t first = text.find(begin);
  ASSERT_NE(first, text.npos);
  const std::size_t from = first + begin.size();
  EXPECT_EQ(text.substr(from, text.find("```", from) - from),
            microscale({"bench", "attention", "--plan"}).out)
      << "run scripts/renew_plans where the difference is meant";
}

TEST(AttentionPlans, are_the_same_as_json) {
  const std::string text = microscale({"bench", "attention", "--plan"}).out;
  const Json document = Json::parse(microscale({"bench", "attention", "--plan", "--json"}).out);
  EXPECT_EQ(document["operation"], "attention");
  ASSERT_EQ(document["gpus"].size(), 3u);
  for (const Json& plan : document["gpus"][0]["plans"])
    EXPECT_NE(text.find(plan["plan"].get<std::string>()), std::string::npos);
}

}  // namespace
}  // namespace microscale::testing
