// Where output goes and what when it cannot: closed and full outputs, terminals of any width.
#include <gtest/gtest.h>

#include "report/terminal.hpp"
#include "tools/subprocess.hpp"

namespace microscale::testing {
namespace {

TEST(Output, closed_by_its_reader_is_quiet_and_keeps_the_exit_code) {
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"explain", "1", "2", "--compare"}, {"completion", "bash"}, {"--help"}}) {
    const Outcome outcome = microscale_unread(arguments);
    EXPECT_EQ(outcome.code, 0);
    EXPECT_EQ(outcome.err, "");
  }
  EXPECT_EQ(microscale_unread({"explain", "x", "--json"}).code, 2);
}

TEST(Output, that_cannot_be_written_exits_with_4) {
  const Outcome full = bash("\"$microscale\" explain 1 > /dev/full");
  EXPECT_EQ(full.code, 4);
  EXPECT_NE(full.err.find("cannot write to standard output"), std::string::npos) << full.err;
  EXPECT_EQ(bash("\"$microscale\" explain 1 >&-").code, 4);
  EXPECT_EQ(bash("\"$microscale\" explain 1 --json > /dev/full").code, 4);
}

TEST(Input, that_cannot_be_read_exits_with_4) {
  EXPECT_EQ(bash("\"$microscale\" explain - < /").code, 4);
}

TEST(Terminal, shows_colour_unless_told_not_to) {
  const std::vector<std::string> arguments = {"explain", "12", "10", "3", "-7"};
  EXPECT_NE(microscale_on_terminal(arguments, 80).out.find("\x1b["), std::string::npos);
  EXPECT_EQ(microscale_on_terminal(arguments, 80, {{"NO_COLOR", "1"}}).out.find("\x1b["),
            std::string::npos);
  EXPECT_EQ(microscale_on_terminal(arguments, 80, {{"CI", "true"}}).out.find("\x1b["),
            std::string::npos);
  EXPECT_EQ(microscale_on_terminal(arguments, 80, {{"TERM", "dumb"}}).out.find("\x1b["),
            std::string::npos);
  EXPECT_EQ(microscale(arguments).out.find("\x1b["), std::string::npos);
}

TEST(Terminal, of_40_columns_gets_no_longer_line) {
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"explain", "12", "10", "3", "-7.25", "0.945"},
           {"explain", "12", "-7", "1e-3", "--format", "nvfp4"},
           {"explain", "12", "10", "3", "-7", "--compare"},
           {"explain", "12", "10", "3", "-7", "--format", "mxfp8", "--rounding", "stochastic"}}) {
    const Outcome outcome = microscale_on_terminal(arguments, 40, {{"NO_COLOR", "1"}});
    EXPECT_EQ(outcome.code, 0);
    for (const std::string& line : lines_of(outcome.out))
      EXPECT_LE(display_width(line), 40) << line;
  }
}

TEST(Terminal, of_80_columns_has_the_elements_as_a_table) {
  const Outcome outcome =
      microscale_on_terminal({"explain", "25", "1", "-0.3", "0.1234567"}, 80, {{"NO_COLOR", "1"}});
  EXPECT_NE(outcome.out.find("below|mid|above  code"), std::string::npos) << outcome.out;
}

}  // namespace
}  // namespace microscale::testing
