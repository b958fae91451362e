#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "checkpoint/containers/gguf_tokenizer.hpp"

namespace microscale {
namespace {

using Tokens = std::vector<std::string_view>;
using Merges = std::vector<Merge>;

TEST(MergesOf, the_best_token_comes_first) {
  EXPECT_EQ(merges_of(Tokens{"a", "b", "ab", "bb"}, {0, 0, -2, -1}),
            (Merges{{"b", "b"}, {"a", "b"}}));
}

// Cut in two ways with equal scores: the longer left part first, as the tokenizers library sorts.
TEST(MergesOf, all_cuts_into_tokens_count) {
  EXPECT_EQ(merges_of(Tokens{"a", "ab", "b", "bc", "c", "abc"}, {0, -1, 0, -2, 0, -3}),
            (Merges{{"a", "b"}, {"b", "c"}, {"ab", "c"}, {"a", "bc"}}));
}

TEST(MergesOf, characters_are_not_cut) {
  const std::string u = "\xC3\xBC", half = "\xC3", rest = "\xBC", word = u + "a";
  EXPECT_EQ(merges_of(Tokens{half, rest, u, "a", word}, {0, 0, -1, 0, -2}), (Merges{{u, "a"}}));
}

TEST(MergesOf, of_equal_tokens_the_first_counts) {
  EXPECT_EQ(merges_of(Tokens{"a", "aa", "aa"}, {0, -1, -2}), (Merges{{"a", "a"}}));
  EXPECT_TRUE(merges_of({}, {}).empty());
}

TEST(MergesOf, endless_tokens_take_no_endless_time) {
  const std::string endless(1'000'000, 'a');
  EXPECT_TRUE(merges_of(Tokens{"a", endless}, {0, 0}).empty());
}

}  // namespace
}  // namespace microscale
