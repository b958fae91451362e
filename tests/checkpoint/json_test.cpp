#include "checkpoint/json.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "checkpoint/support.hpp"

namespace microscale {
namespace {

using testing::fails_with;
using testing::succeeds;
using namespace std::string_literals;

TEST(ParseJson, builds_the_tree_and_keeps_the_order_of_keys) {
  const std::string text =
      R"({"z":1,"a":[true,null,-2,1.5,"s",{"q":{}},[]],"m":{"k":18446744073709551615}})";
  const auto tree = parse_json(text);
  ASSERT_TRUE(succeeds(tree));
  EXPECT_EQ(tree.value().dump(), text);
  EXPECT_TRUE(tree.value()["z"].is_number_unsigned());
  EXPECT_TRUE(tree.value()["a"][3].is_number_float());
}

TEST(ParseJson, agrees_with_nlohmann_on_scalars_and_whitespace) {
  for (const char* text : {"0", "-0", "-1", "1e3", "\"\\u00e9\\ud83d\\ude00\"", " [ 1 ,\n2\t]\r\n",
                           "null", "{}", "[]", "true"}) {
    const auto tree = parse_json(text);
    ASSERT_TRUE(succeeds(tree)) << text;
    EXPECT_EQ(tree.value(), nlohmann::ordered_json::parse(text)) << text;
  }
}

TEST(ParseJson, duplicate_keys_are_refused_with_their_place) {
  EXPECT_TRUE(fails_with(parse_json(R"({"a":1,"a":1})"), "the key 'a' appears twice"));
  EXPECT_TRUE(fails_with(parse_json(R"({"o":{"i":[{"b":1,"\u0062":2}]}})"),
                         "the key 'b' appears twice inside 'o/i'"));
  EXPECT_TRUE(succeeds(parse_json(R"({"a":{"a":[{"a":1},{"a":2}]}})")));
}

TEST(ParseJson, nesting_is_refused_one_level_beyond_the_limit) {
  const auto nested = [](int levels) {
    return std::string(levels, '[') + std::string(levels, ']');
  };
  EXPECT_TRUE(succeeds(parse_json(nested(64))));
  EXPECT_TRUE(fails_with(parse_json(nested(65)), "nested deeper than 64 levels"));
  EXPECT_TRUE(fails_with(parse_json(std::string(1'000'000, '[')), "nested deeper"));
  EXPECT_TRUE(succeeds(parse_json("[[1]]", 2)));
  EXPECT_TRUE(fails_with(parse_json("[{\"a\":[]}]", 2), "nested deeper than 2 levels"));
}

TEST(ParseJson, what_follows_the_value_is_refused) {
  for (const char* text : {"{} x", "{}{}", "1 2", "[],", "{}//c", "{}\f"}) {
    EXPECT_TRUE(fails_with(parse_json(text), "not valid JSON at byte")) << text;
  }
  EXPECT_TRUE(fails_with(parse_json("{}\0"s), "byte 2 is NUL"));
  EXPECT_TRUE(fails_with(parse_json("{}\0{}"s), "byte 2 is NUL"));
}

TEST(ParseJson, malformed_text_is_refused) {
  for (const char* text : {"",    " ",   "{",       "[1,]",   "{\"a\"}", "{\"a\":}",   "{a:1}",
                           "'a'", "01",  "+1",      "1.",     ".5",      "1e",         "0x10",
                           "tru", "\"a", "\"\\x\"", "\"\t\"", "[1 2]",   "{\"a\":1,}", "/*c*/1"}) {
    EXPECT_TRUE(fails_with(parse_json(text), "not valid JSON at byte")) << text;
  }
  EXPECT_TRUE(fails_with(parse_json("1e999"), "not valid JSON"));
}

TEST(ParseJson, infinity_and_nan_are_refused_by_name) {
  for (const char* text : {"[0.0, Infinity]", "{\"a\":NaN}", "NaN"}) {
    EXPECT_TRUE(fails_with(parse_json(text), "Infinity and NaN are not JSON")) << text;
  }
}

TEST(ParseJson, nul_in_strings_and_keys_is_refused) {
  EXPECT_TRUE(fails_with(parse_json(R"({"k":"a\u0000b"})"), "a string holds a NUL character"));
  EXPECT_TRUE(fails_with(parse_json(R"({"o":{"a\u0000":1}})"), "a key holds a NUL character"));
}

TEST(ParseJson, broken_unicode_is_refused) {
  for (const std::string& text :
       {"\"\x80\""s, "\"\xc3\""s, "\"\xc0\xaf\""s, "\"\xed\xa0\x80\""s, "\"\xf4\x90\x80\x80\""s,
        "\"\xff\""s, R"("\ud800")"s, R"("\udc00")"s, R"("\ud800\u0041")"s, R"("\udc00\ud800")"s}) {
    EXPECT_TRUE(fails_with(parse_json(text), "not valid JSON")) << text;
  }
  EXPECT_TRUE(fails_with(parse_json("\xEF\xBB\xBF{}"), "byte-order mark"));
}

TEST(ReadJson, stops_at_the_first_complaint_of_the_sink) {
  int events = 0;
  const Status status =
      read_json("[1,2,3]", [&](const JsonEvent& event) -> std::optional<std::string> {
        ++events;
        if (event.kind == JsonEvent::Kind::unsigned_integer && event.unsigned_integer == 2) {
          return "no twos";
        }
        return std::nullopt;
      });
  EXPECT_TRUE(fails_with(status, "no twos"));
  EXPECT_EQ(events, 3);
}

TEST(ReadJson, tells_integers_from_reals) {
  std::string kinds;
  const Status status = read_json("[0,-1,-0,1.0,1e2,18446744073709551615,18446744073709551616]",
                                  [&](const JsonEvent& event) -> std::optional<std::string> {
                                    using Kind = JsonEvent::Kind;
                                    if (event.kind == Kind::unsigned_integer) kinds += 'u';
                                    if (event.kind == Kind::negative_integer) kinds += 'n';
                                    if (event.kind == Kind::real) kinds += 'r';
                                    return std::nullopt;
                                  });
  ASSERT_TRUE(succeeds(status));
  EXPECT_EQ(kinds, "unnrrur");
}

TEST(InQuotes, escapes_and_shortens) {
  EXPECT_EQ(in_quotes("a.b"), "'a.b'");
  EXPECT_EQ(in_quotes("it's\n\\\x7f"), "'it\\'s\\x0a\\\\\\x7f'");
  EXPECT_EQ(in_quotes(std::string(300, 'x')), "'" + std::string(200, 'x') + "...'");
  // Never half a character.
  EXPECT_EQ(in_quotes(std::string(199, 'x') + "\xc3\xa9"), "'" + std::string(199, 'x') + "...'");
}

}  // namespace
}  // namespace microscale
