// Where output goes and what when it cannot: closed and full outputs, terminals of any width.
#include <gtest/gtest.h>

#include "report/terminal.hpp"
#include "tools/checkpoint_folders.hpp"

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

/// Commands that print tables, sentences, histograms, notes, findings and errors.
std::vector<std::vector<std::string>> talkative(const Folders& folders) {
  const std::string q = folders.quantized(), dense = folders.dense(), broken = folders.broken(),
                    none = folders.nowhere();
  return {{"quantize", dense, "-o", none, "--format", "nvfp4", "--dry-run", "--resume"},
          {"quantize", dense, "-o", none, "--format", "mxfp4", "--dry-run", "--ignore", "lm_hea"},
          {"quantize", q, "-o", none + "1", "--format", "mxfp8"},
          {"convert", q, "-o", none, "--to", "modelopt", "--dry-run"},
          {"convert", q, "-o", none + "2", "--to", "modelopt"},
          {"dequantize", q, "-o", none + "3"},
          {"dequantize", broken, "-o", none + "4"},
          {"inspect", q},
          {"inspect", q, down},
          {"inspect", q, "--engines"},
          {"inspect", q, "model.layers.0.mlp.down_prj"},
          {"verify", q},
          {"verify", q, "--tp", "4"},
          {"verify", q, "--source", dense},
          {"verify", broken},
          {"repair", q, "--dry-run"},
          {"repair", broken, "-o", none + "5"},
          {"compare", dense, q},
          {"compare", dense, q, "--max-mse", "0.01%"},
          {"explain", "mma", "mxf4nvf4", "m16n8k64"},
          {"explain", "occupancy", "--regs", "64", "--threads", "256"},
          {"completion", "tcsh"},
          {"version"}};
}

TEST(Terminal, of_any_width_gets_no_line_that_runs_over) {
  const Folders folders;
  ASSERT_EQ(microscale({"dequantize", folders.quantized(), "-o", folders.dense()}).code, 0);
  for (const unsigned short width : {40, 60, 80}) {
    std::size_t number = 0;
    for (std::vector<std::string> arguments : talkative(folders)) {
      // What a run has written is there for the next width.
      for (std::string& word : arguments)
        if (word.starts_with(folders.nowhere())) word += std::to_string(width);
      const Outcome outcome = microscale_on_terminal(arguments, width, {{"NO_COLOR", "1"}});
      EXPECT_NE(outcome.code, 127);
      EXPECT_FALSE(outcome.out.empty()) << number;
      for (const std::string& line : lines_of(outcome.out)) {
        // A word that is longer than a line, such as a path, is left whole.
        const std::size_t begin = std::min(line.find_first_not_of(' '), line.size());
        const bool one_word = line.find(' ', begin) == std::string::npos;
        EXPECT_TRUE(one_word || display_width(line) <= width)
            << arguments[0] << " (" << number << "): " << line;
      }
      ++number;
    }
  }
}

TEST(Columns, of_the_environment_are_the_width_of_a_pipe) {
  const Folders folders;
  const std::vector<std::string> arguments{"inspect", folders.quantized()};
  const Outcome wide = microscale(arguments);
  const Outcome narrow = microscale(arguments, "", {{"COLUMNS", "40"}});
  std::size_t longest = 0, longest_narrow = 0;
  for (const std::string& line : lines_of(wide.out)) longest = std::max(longest, line.size());
  for (const std::string& line : lines_of(narrow.out))
    longest_narrow = std::max(longest_narrow, line.size());
  EXPECT_GT(longest, 60u);
  EXPECT_LE(longest_narrow, 40u);
  // Scripts and documents are read by programs.
  const Outcome script = microscale({"completion", "bash"});
  EXPECT_EQ(microscale({"completion", "bash"}, "", {{"COLUMNS", "40"}}).out, script.out);
  EXPECT_EQ(microscale({"inspect", folders.quantized(), "--json"}, "", {{"COLUMNS", "40"}}).out,
            microscale({"inspect", folders.quantized(), "--json"}).out);
}

TEST(Terminal, of_80_columns_has_the_elements_as_a_table) {
  const Outcome outcome =
      microscale_on_terminal({"explain", "25", "1", "-0.3", "0.1234567"}, 80, {{"NO_COLOR", "1"}});
  EXPECT_NE(outcome.out.find("below|mid|above  code"), std::string::npos) << outcome.out;
}

}  // namespace
}  // namespace microscale::testing
