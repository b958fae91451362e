#include "checkpoint/pattern.hpp"

#include <gtest/gtest.h>

#include <string>

#include "support.hpp"

namespace microscale {
namespace {

using testing::fails_with;

bool matches(std::string_view pattern, std::string_view name) {
  return take(Pattern::parse(pattern)).matches(name);
}

TEST(Pattern, glob_matches_the_whole_name_only) {
  EXPECT_TRUE(matches("model.layers.0", "model.layers.0"));
  EXPECT_FALSE(matches("model.layers.0", "model.layers.01"));
  EXPECT_FALSE(matches("layers.0", "model.layers.0"));
  EXPECT_TRUE(matches("*.q_proj", "model.layers.3.self_attn.q_proj"));
  EXPECT_FALSE(matches("*.q_proj", "model.layers.3.self_attn.q_proj.weight"));
  EXPECT_TRUE(matches("*layers*proj*", "model.layers.3.self_attn.q_proj.weight"));
}

TEST(Pattern, glob_star_takes_any_run_and_question_mark_one_character) {
  EXPECT_TRUE(matches("a*b*c", "aXbYbZc"));
  EXPECT_TRUE(matches("*", ""));
  EXPECT_TRUE(matches("a**", "a"));
  EXPECT_FALSE(matches("a*b", "aXbY"));
  EXPECT_TRUE(matches("layers.?.x", "layers.7.x"));
  EXPECT_FALSE(matches("layers.?.x", "layers.17.x"));
  EXPECT_FALSE(matches("?", ""));
}

TEST(Pattern, glob_set_takes_ranges_and_negation) {
  EXPECT_TRUE(matches("layers.[0-3].x", "layers.2.x"));
  EXPECT_FALSE(matches("layers.[0-3].x", "layers.4.x"));
  EXPECT_TRUE(matches("layers.[!0-3].x", "layers.4.x"));
  EXPECT_FALSE(matches("layers.[^0-3].x", "layers.2.x"));
  EXPECT_TRUE(matches("[]]", "]"));
  EXPECT_TRUE(matches("[[]x", "[x"));
  EXPECT_TRUE(matches("*[qk]_proj", "a.k_proj"));
  EXPECT_TRUE(matches("[a-]", "-"));
}

TEST(Pattern, glob_of_many_stars_is_fast_on_a_long_name) {
  EXPECT_FALSE(matches("*a*a*a*a*a*a*a*a*a*a*a*a*b", std::string(20000, 'a')));
}

TEST(Pattern, expression_is_anchored_at_the_start_but_not_at_the_end) {
  EXPECT_TRUE(matches("re:model", "model.layers"));
  EXPECT_FALSE(matches("re:layers", "model.layers"));
  EXPECT_TRUE(matches("re:.*mlp\\.gate$", "model.layers.0.mlp.gate"));
  EXPECT_FALSE(matches("re:.*mlp\\.gate$", "model.layers.0.mlp.gate_proj"));
  EXPECT_TRUE(matches("re:.*layers\\.(0|31)\\..*proj", "model.layers.31.mlp.up_proj.weight"));
}

TEST(Pattern, expression_of_exponential_backtracking_still_answers) {
  EXPECT_FALSE(matches("re:(a*)*b", std::string(5000, 'a')));
}

TEST(Pattern, refuses_what_it_cannot_read_with_a_sentence) {
  EXPECT_TRUE(fails_with(Pattern::parse(""), "is empty"));
  EXPECT_TRUE(fails_with(Pattern::parse("re:"), "is empty"));
  EXPECT_TRUE(fails_with(Pattern::parse("a[bc"), "'[' without a ']'"));
  EXPECT_TRUE(
      fails_with(Pattern::parse("re:(unclosed"), "'re:(unclosed' is no regular expression"));
  EXPECT_TRUE(fails_with(Pattern::parse("re:a{100000}"), "is no regular expression"));
  EXPECT_TRUE(fails_with(Pattern::parse(std::string(1001, 'a')), "more than 1000"));
  EXPECT_EQ(Pattern::parse("[").failure().code, ErrorCode::invalid_argument);
}

TEST(Pattern, knows_whether_it_names_one_thing) {
  EXPECT_TRUE(take(Pattern::parse("lm_head")).is_literal());
  EXPECT_FALSE(take(Pattern::parse("lm_*")).is_literal());
  EXPECT_FALSE(take(Pattern::parse("re:lm_head")).is_literal());
}

}  // namespace
}  // namespace microscale
