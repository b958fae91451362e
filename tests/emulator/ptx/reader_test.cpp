#include "emulator/ptx/reader.hpp"

#include <gtest/gtest.h>

namespace microscale::emulator::ptx {
namespace {

std::int64_t integer(std::string_view text) {
  Reader reader(text);
  std::int64_t value = 0;
  EXPECT_TRUE(reader.integer(value, "a number")) << reader.failure().message;
  EXPECT_EQ(reader.now().kind, Token::Kind::end);
  return value;
}

TEST(PtxReader, sums_signed_terms) {
  EXPECT_EQ(integer("-4"), -4);
  EXPECT_EQ(integer("+-16"), -16);
  EXPECT_EQ(integer("--3"), 3);
  EXPECT_EQ(integer("~0"), -1);
  EXPECT_EQ(integer("~-5"), 4);
  EXPECT_EQ(integer("8+4-2"), 10);
  EXPECT_EQ(integer("WARP_SZ"), 32);
  EXPECT_EQ(integer("0xffffffffffffffff"), -1);
}

TEST(PtxReader, names_line_column_and_what_it_found) {
  Reader reader("a\n  .b32");
  std::string_view name;
  ASSERT_TRUE(reader.word(name, "a name"));
  EXPECT_FALSE(reader.expect(';', "behind the name"));
  EXPECT_EQ(reader.failure().message,
            "PTX line 2, column 3: expected ';' behind the name, found '.b32'");
}

TEST(PtxReader, keeps_the_first_failure) {
  Reader reader("a");
  reader.fail(reader.now(), "first");
  reader.fail(reader.now(), "second");
  EXPECT_EQ(reader.failure().message, "PTX line 1, column 1: first");
}

TEST(PtxReader, points_at_the_end_when_the_text_stops) {
  Reader reader("ab");
  reader.advance();
  reader.unexpected("a name");
  EXPECT_EQ(reader.failure().message, "PTX line 1, column 3: expected a name, found the end");
}

TEST(PtxReader, refuses_counts_out_of_range) {
  for (const char* text : {"-1", "11", "1099511627776"}) {
    Reader reader(text);
    std::int64_t value = 0;
    EXPECT_FALSE(reader.count(value, 10, "a count")) << text;
    EXPECT_EQ(reader.failure().message,
              "PTX line 1, column 1: a count must be in 0..10, got " + std::string(text));
  }
}

}  // namespace
}  // namespace microscale::emulator::ptx
