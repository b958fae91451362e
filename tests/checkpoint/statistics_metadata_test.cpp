#include "checkpoint/statistics_metadata.hpp"

#include <gtest/gtest.h>

#include "model_builder.hpp"

namespace microscale {
namespace {

using testing::fails_with;
using testing::succeeds;

TEST(StatisticsMetadata, of_another_file_is_nothing) {
  for (const SafetensorsMetadata& metadata :
       {SafetensorsMetadata{}, SafetensorsMetadata{{"format", "pt"}, {"shares", "{}"}}}) {
    const auto found = read_statistics_metadata(metadata);
    ASSERT_TRUE(succeeds(found));
    EXPECT_FALSE(found.value().has_value());
  }
}

TEST(StatisticsMetadata, says_who_shares) {
  const auto found = read_statistics_metadata(
      {{"microscale_statistics", "1"}, {"shares", R"({"a.k_proj": "a.q_proj"})"}});
  ASSERT_TRUE(succeeds(found));
  ASSERT_TRUE(found.value().has_value());
  EXPECT_EQ(found.value()->shares, (std::map<std::string, std::string>{{"a.k_proj", "a.q_proj"}}));
  const auto without = read_statistics_metadata({{"microscale_statistics", "1"}});
  ASSERT_TRUE(succeeds(without));
  EXPECT_TRUE(without.value()->shares.empty());
}

TEST(StatisticsMetadata, says_whether_gradients_weigh) {
  const SafetensorsMetadata plain{{"microscale_statistics", "1"}};
  EXPECT_FALSE(read_statistics_metadata(plain).value()->by_gradients);
  const SafetensorsMetadata weighted{{"microscale_statistics", "1"}, {"gradients", "squares"}};
  EXPECT_TRUE(read_statistics_metadata(weighted).value()->by_gradients);
}

TEST(StatisticsMetadata, counts_tokens) {
  const auto found = read_statistics_metadata(
      {{"microscale_statistics", "1"}, {"tokens", R"({"a.q_proj": 4096, "b": 0})"}});
  ASSERT_TRUE(succeeds(found));
  EXPECT_EQ(found.value()->tokens,
            (std::map<std::string, std::int64_t>{{"a.q_proj", 4096}, {"b", 0}}));
  for (const char* tokens : {"", "[]", R"({"a": -1})", R"({"a": "4"})"}) {
    EXPECT_TRUE(
        fails_with(read_statistics_metadata({{"microscale_statistics", "1"}, {"tokens", tokens}}),
                   "no object of counts"));
  }
}

TEST(StatisticsMetadata, says_whether_hessians_were_shrunk) {
  const auto shrunk =
      read_statistics_metadata({{"microscale_statistics", "1"}, {"shrunk", "by tokens"}});
  ASSERT_TRUE(succeeds(shrunk));
  EXPECT_TRUE(shrunk.value()->shrunk);
  EXPECT_FALSE(read_statistics_metadata({{"microscale_statistics", "1"}}).value()->shrunk);
}

TEST(StatisticsMetadata, that_cannot_be_read_is_refused) {
  EXPECT_TRUE(
      fails_with(read_statistics_metadata({{"microscale_statistics", "2"}}), "reads version 1"));
  for (const char* shares : {"", "[]", R"({"a": 1})", R"({"a":)"}) {
    EXPECT_TRUE(
        fails_with(read_statistics_metadata({{"microscale_statistics", "1"}, {"shares", shares}}),
                   "no object of names"));
  }
}

}  // namespace
}  // namespace microscale
