#include "emulator/ptx/lexer.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <vector>

namespace microscale::emulator::ptx {
namespace {

using Kind = Token::Kind;

std::vector<Token> tokens(std::string_view text) {
  Lexer lexer(text);
  std::vector<Token> all;
  while (all.empty() || (all.back().kind != Kind::end && all.back().kind != Kind::bad)) {
    all.push_back(lexer.next());
  }
  all.pop_back();
  return all;
}

std::string problem(std::string_view text) {
  Lexer lexer(text);
  for (;;) {
    const Token token = lexer.next();
    if (token.kind == Kind::bad) return lexer.problem();
    if (token.kind == Kind::end) return {};
  }
}

std::uint64_t number(std::string_view text) { return tokens(text).at(0).value; }

TEST(PtxLexer, keeps_double_colons_inside_a_modifier) {
  const auto cut = tokens("@%p1 ld.global.L1::no_allocate.v4.b32 {%r1,_}, [%rd2+-16];");
  std::string joined;
  for (const Token& each : cut) joined += std::string(each.text) + "|";
  EXPECT_EQ(joined, "@|%p1|ld|global|L1::no_allocate|v4|b32|{|%r1|,|_|}|,|[|%rd2|+|-|16|]|;|");
  EXPECT_EQ(cut[4].kind, Kind::dot);
}

TEST(PtxLexer, label_ends_at_a_single_colon) {
  const auto cut = tokens("$L__BB0_2: x.y: z");
  ASSERT_EQ(cut.size(), 6u);
  EXPECT_EQ(cut[0].text, "$L__BB0_2");
  EXPECT_TRUE(cut[1].is(':'));
  EXPECT_TRUE(cut[3].is_dot("y"));
  EXPECT_TRUE(cut[4].is(':'));
}

TEST(PtxLexer, reads_integers_of_four_bases) {
  EXPECT_EQ(number("4294967295U"), 4294967295u);
  EXPECT_EQ(number("0xFFffFFffFFffFFff"), UINT64_MAX);
  EXPECT_EQ(number("0x80U"), 128u);
  EXPECT_EQ(number("0b1011"), 11u);
  EXPECT_EQ(number("0755"), 493u);
  EXPECT_EQ(number("0"), 0u);
  EXPECT_EQ(tokens("0").at(0).kind, Kind::integer);
}

TEST(PtxLexer, reads_reals_as_bits) {
  EXPECT_EQ(tokens("0f3F800000").at(0).kind, Kind::real32);
  EXPECT_EQ(number("0f3F800000"), 0x3F800000u);
  EXPECT_EQ(number("0dbff0000000000000"), 0xbff0000000000000u);
  EXPECT_EQ(tokens("0D0000000000000000").at(0).kind, Kind::real64);
  EXPECT_EQ(std::bit_cast<double>(number("1.5e-3")), 1.5e-3);
  EXPECT_EQ(std::bit_cast<double>(number("2E+2")), 200.0);
  EXPECT_EQ(tokens("9.0").at(0).text, "9.0");
}

TEST(PtxLexer, skips_comments_and_counts_lines) {
  const auto cut = tokens("a // b \xc3\xa9\n/* c\n\n*/ d \"e\"\nf");
  ASSERT_EQ(cut.size(), 4u);
  EXPECT_EQ(cut[1].line, 4u);
  EXPECT_EQ(cut[2].kind, Kind::string);
  EXPECT_EQ(cut[2].text, "e");
  EXPECT_EQ(cut[3].line, 5u);
}

TEST(PtxLexer, says_what_is_wrong_with_a_token) {
  EXPECT_EQ(problem("x /* y"), "a comment that starts here has no */");
  EXPECT_EQ(problem("\"abc"), "a string that starts here has no end");
  EXPECT_EQ(problem("\"abc\\"), "a string that starts here has no end");
  EXPECT_EQ(problem("0f3F8"), "'0f3F8' needs 8 hexadecimal digits");
  EXPECT_EQ(problem("0f3F8000zz"), "'0f3F8000zz' is not a number");
  EXPECT_EQ(problem("99999999999999999999"), "'99999999999999999999' does not fit 64 bits");
  EXPECT_EQ(problem("0x"), "'0x' has no digits");
  EXPECT_EQ(problem("12ab"), "'12ab' is not a number");
  EXPECT_EQ(problem("08"), "'08' is not a number");
  EXPECT_EQ(problem("1.5. "), "a dot without a word behind it");
  EXPECT_EQ(problem("1.5x"), "'1.5x' is not a number");
  EXPECT_EQ(problem("\xc3\xa9"), "the character '\\xc3' is not PTX");
  EXPECT_EQ(problem(std::string_view("a\0b", 3)), "the character '\\x00' is not PTX");
}

TEST(PtxLexer, skips_a_braced_part_without_looking_at_names) {
  const std::string_view text = "{ { } /* } */ \"}\" // }\n } } after";
  Lexer lexer(text);
  ASSERT_TRUE(lexer.next().is('{'));
  ASSERT_TRUE(lexer.skip_braces());
  EXPECT_EQ(lexer.line(), 2u);
  EXPECT_TRUE(lexer.next().is('}'));
  EXPECT_EQ(lexer.next().text, "after");

  Lexer open("{ { }");
  open.next();
  EXPECT_FALSE(open.skip_braces());
  EXPECT_EQ(open.problem(), "a body or section that starts here has no }");
}

TEST(PtxLexer, names_places_from_one) {
  EXPECT_EQ(place_of("ab\ncd", 0, 1), "line 1, column 1");
  EXPECT_EQ(place_of("ab\ncd", 4, 2), "line 2, column 2");
  EXPECT_EQ(place_of("ab\ncd", 5, 2), "line 2, column 3");
}

TEST(PtxLexer, quotes_at_most_forty_printable_characters) {
  EXPECT_EQ(ptx::quoted("a\tb"), "'a\\x09b'");
  EXPECT_EQ(ptx::quoted(std::string(50, 'x')), "'" + std::string(40, 'x') + "...'");
}

}  // namespace
}  // namespace microscale::emulator::ptx
