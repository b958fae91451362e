// The plans of docs/matmul.md are those that choose() makes today.
#include "cuda/matmul/matmul.hpp"
#include "support/paths.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace microscale::cuda {
namespace {

TEST(PlanTable, is_what_the_document_shows) {
  std::ifstream file(microscale::testing::test_data() + "/../docs/matmul.md");
  ASSERT_TRUE(file);
  std::ostringstream document;
  document << file.rdbuf();
  const std::string text = document.str(), begin = "```text plans\n";
  const std::size_t first = text.find(begin);
  ASSERT_NE(first, text.npos);
  const std::size_t from = first + begin.size();
  EXPECT_EQ(text.substr(from, text.find("```", from) - from), plan_table())
      << "run scripts/renew_plans where the difference is meant";
}

}  // namespace
}  // namespace microscale::cuda
