#include "report/terminal.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

namespace microscale {
namespace {

/// Sets variables of the environment and puts the old ones back.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old, was_set_ = true;
    value == nullptr ? unsetenv(name) : setenv(name, value, 1);
  }
  ~Environment() { was_set_ ? setenv(name_, old_.c_str(), 1) : unsetenv(name_); }

 private:
  const char* name_;
  std::string old_;
  bool was_set_ = false;
};

TEST(Terminal, width_of_text_counts_columns_not_bytes) {
  EXPECT_EQ(display_width("q_proj"), 6);
  EXPECT_EQ(display_width("caf\u00e9"), 4);
  EXPECT_EQ(display_width("e\u0301"), 1);           // e and a combining accent
  EXPECT_EQ(display_width("\u6a21\u578b"), 4);      // two Chinese characters
  EXPECT_EQ(display_width("a\xff\xc3"), 3);         // broken bytes are a column each
  EXPECT_EQ(display_width("\xed\xa0\x80"), 3);      // a surrogate is no character
  EXPECT_EQ(display_width("\xf0\x9f\x98\x80"), 2);  // an emoji
}

TEST(Terminal, printable_text_cannot_move_the_cursor) {
  EXPECT_EQ(printable("a\x1b[2Jb\n\t\x7f", true), "a?[2Jb???");
  EXPECT_EQ(printable("caf\u00e9", true), "caf\u00e9");
  EXPECT_EQ(printable("caf\u00e9", false), "caf?");
  EXPECT_EQ(printable("a\u202eb", true), "a?b");  // right-to-left override
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m",
                      true),
            "?31m");                                  // the one-character CSI
  EXPECT_EQ(printable("\xc0\xaf\xff", true), "???");  // overlong slash
}

TEST(Terminal, shortened_names_keep_both_ends) {
  const std::string name = "model.layers.12.self_attn.q_proj.weight";
  EXPECT_EQ(shorten_middle(name, 39), name);
  EXPECT_EQ(shorten_middle(name, 24), "model.l....q_proj.weight");
  EXPECT_EQ(shorten_middle("abcdefgh", 5), "...gh");
  EXPECT_EQ(shorten_middle("abcdefgh", 6), "a...gh");
  EXPECT_EQ(shorten_middle("abcdefgh", 3), "abc");
  EXPECT_EQ(shorten_middle("abcdefgh", 0), "");
}

TEST(Terminal, shortened_tensor_names_keep_their_numbers_and_end) {
  const std::string name = "model.layers.12.mlp.experts.255.up_proj.weight";
  EXPECT_EQ(shorten_name(name, 46), name);
  EXPECT_EQ(shorten_name(name, 45), "...layers.12.mlp.experts.255.up_proj.weight");
  EXPECT_EQ(shorten_name(name, 40), "...12.mlp.experts.255.up_proj.weight");
  EXPECT_EQ(shorten_name(name, 26), "...12...255.up_proj.weight");
  EXPECT_EQ(shorten_name(name, 25), shorten_middle(name, 25));
  EXPECT_EQ(shorten_name("averylongnamewithoutdots", 12), "ave...utdots");
  EXPECT_EQ(shorten_name("....................", 6), shorten_middle("....................", 6));
}

TEST(Terminal, shortening_never_splits_a_character_nor_exceeds_the_width) {
  const std::string name = "\u6a21\u578b\u6a21\u578b\u6a21\u578b\u6a21\u578b-caf\u00e9-e\u0301";
  for (int width = 0; width < 30; ++width) {
    const std::string text = shorten_middle(name, width);
    EXPECT_LE(display_width(text), width);
    EXPECT_EQ(printable(text, true), text) << width;  // whole characters only
  }
}

TEST(Terminal, variables_ask_for_plain_text) {
  const Environment no_color("NO_COLOR", nullptr), ci("CI", nullptr), term("TERM", "xterm");
  EXPECT_FALSE(plain_text_wanted());
  {
    const Environment set("NO_COLOR", "1");
    EXPECT_TRUE(plain_text_wanted());
  }
  {
    const Environment empty("NO_COLOR", ""), off("CI", "false");
    EXPECT_FALSE(plain_text_wanted());
  }
  {
    const Environment set("CI", "true");
    EXPECT_TRUE(plain_text_wanted());
  }
  const Environment dumb("TERM", "dumb");
  EXPECT_TRUE(plain_text_wanted());
}

TEST(Terminal, lines_that_are_too_long_are_broken_at_blanks) {
  EXPECT_EQ(fitted("one two three four", 9), "one two\n  three\n  four");
  EXPECT_EQ(fitted("one two three four", 0), "one two three four");
  EXPECT_EQ(fitted("short\none two three\n\nend\n", 9), "short\none two\n  three\n\nend\n");
  EXPECT_EQ(fitted("  codes 1 2 3", 10), "  codes 1\n    2 3");
  EXPECT_EQ(fitted("a/very/long/path is here", 8), "a/very/long/path\n  is\n  here");
  EXPECT_EQ(fitted("in /a/very/long/path", 8), "in\n  /a/very/long/path");
  EXPECT_EQ(fitted("\x1b[1mBlock scales\x1b[0m (12)", 17), "\x1b[1mBlock scales\x1b[0m (12)");
  EXPECT_EQ(fitted("\x1b[1mBlock scales\x1b[0m (12)", 16), "\x1b[1mBlock scales\x1b[0m\n  (12)");
  EXPECT_EQ(fitted("\u6a21\u578b \u6a21\u578b", 8), "\u6a21\u578b\n  \u6a21\u578b");
  EXPECT_EQ(fitted("        x y z", 6), "        x\n   y z") << "an indent that leaves no room";
}

TEST(Terminal, a_pipe_is_as_wide_as_the_environment_says) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  for (const auto& [columns, width] : {std::pair("40", 40), std::pair("0", 0), std::pair("x", 0),
                                       std::pair("-3", 0), std::pair("99999", 0)}) {
    const Environment set("COLUMNS", columns);
    const TextStyle style = text_style(ends[1]);
    EXPECT_EQ(style.width, width) << columns;
    EXPECT_FALSE(style.terminal);
    EXPECT_FALSE(style.colour);
  }
  close(ends[0]);
  close(ends[1]);
}

TEST(Terminal, a_pipe_is_unlimited_and_plain_but_keeps_names) {
  const Environment columns("COLUMNS", nullptr);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  for (const char* locale : {"C.UTF-8", "C"}) {
    const Environment set("LC_ALL", locale);
    const TextStyle style = text_style(ends[1]);
    EXPECT_EQ(style.width, 0);
    EXPECT_EQ(style.utf8, std::string_view(locale) == "C.UTF-8");
    EXPECT_FALSE(style.boxes);
    EXPECT_FALSE(style.colour);
  }
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace microscale
