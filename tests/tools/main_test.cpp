// The command line as a whole: help, exit codes, what goes to which stream, misspelled names,
// closed and full outputs, terminals.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "report/terminal.hpp"
#include "tools/subprocess.hpp"

namespace microscale::testing {
namespace {

const std::vector<std::string> commands = {"quantize", "dequantize", "inspect",    "verify",
                                           "compare",  "explain",    "completion", "version"};

TEST(Help, of_every_command_ends_with_an_example_within_80_columns) {
  for (const std::string& command : commands) {
    const Outcome outcome = microscale({command, "--help"});
    EXPECT_EQ(outcome.code, 0) << command;
    EXPECT_EQ(outcome.err, "") << command;
    EXPECT_NE(outcome.out.find("Usage: microscale " + command), std::string::npos) << outcome.out;
    const std::size_t example = outcome.out.find("Example:\n");
    ASSERT_NE(example, std::string::npos) << outcome.out;
    EXPECT_NE(outcome.out.find(command, example), std::string::npos);
    EXPECT_NE(outcome.out.find("--json"), std::string::npos);
    for (const std::string& line : lines_of(outcome.out)) EXPECT_LE(line.size(), 80u) << line;
  }
}

TEST(Help, lists_every_command_and_the_exit_codes) {
  const Outcome outcome = microscale({"--help"});
  EXPECT_EQ(outcome.code, 0);
  for (const std::string& command : commands)
    EXPECT_NE(outcome.out.find("\n  " + command), std::string::npos);
  EXPECT_NE(outcome.out.find("130 interrupted"), std::string::npos);
}

TEST(Help, names_every_choice) {
  const std::string text = microscale({"quantize", "--help"}).out;
  for (const char* choice :
       {"nvfp4", "mxfp8_e5m2", "four_over_six", "amax_ceil", "nearest_away", "llama.cpp"})
    EXPECT_NE(text.find(choice), std::string::npos) << choice;
}

TEST(Version, is_the_same_as_option_and_as_command) {
  const Outcome option = microscale({"--version"});
  const Outcome command = microscale({"version"});
  EXPECT_EQ(option.code, 0);
  EXPECT_EQ(option.out.rfind("microscale ", 0), 0u);
  EXPECT_EQ(command.out.rfind(option.out, 0), 0u);
  const auto json = nlohmann::json::parse(microscale({"version", "--json"}).out);
  EXPECT_EQ("microscale " + json["version"].get<std::string>() + "\n", option.out);
  EXPECT_EQ(json["backends"].back(), "reference");
}

struct Mistake {
  std::vector<std::string> arguments;
  std::string says;
};

TEST(Usage, mistakes_exit_with_2_and_say_what_was_meant) {
  const std::vector<Mistake> mistakes = {
      {{}, "no command given; choose one of quantize"},
      {{"quantise"}, "microscale: no command 'quantise' (did you mean quantize?)"},
      {{"--versio"}, "unexpected option '--versio' (did you mean --version?)"},
      {{"quantize"}, "microscale quantize: "},
      {{"quantize", "m", "-o", "x"}, "--format is required"},
      {{"quantize", "m", "-o", "x", "--format", "nvfp5"},
       "'nvfp5' (did you mean nvfp4?); choose one of mxfp4, nvfp4"},
      {{"quantize", "m", "--fromat", "nvfp4"},
       "unexpected option '--fromat' (did you mean --format?)"},
      {{"quantize", "m", "-o", "x", "--format", "mxfp4", "--max-memory", "3X"},
       "--max-memory got '3X'"},
      {{"quantize", "m", "-o", "x", "--format", "mxfp4", "--max-memory", "0"},
       "--max-memory got '0'"},
      {{"quantize", "m", "-o", "x", "--format", "mxfp4", "--threads", "many"},
       "--threads got 'many'"},
      {{"dequantize", "m", "-o", "x", "--dtype", "bf61"}, "'bf61' (did you mean bf16?)"},
      {{"verify", "m", "--threads", "-1"}, "--threads got '-1'; it takes an integer from 0"},
      {{"compare", "a", "b", "--max-mse", "low"}, "--max-mse got 'low'"},
      {{"inspect", "a", "b", "c"}, "unexpected argument 'c'"},
      {{"completion", "tcsh"}, "choose one of bash, zsh, fish"},
      {{"explain", "1", "--scale-rule", "flor"}, "'flor' (did you mean floor?)"},
      {{"explain", "1", "--scale-rule", "nearest"},
       "nearest is not defined for mxfp4; choose one of search"},
      {{"explain", "1", "--rounding", "nearest-evn"}, "(did you mean nearest_even?)"},
      {{"explain", "1", "--compat", "Torch-AO"}, "(did you mean torchao?)"},
      {{"explain", "1", "--compat", "ocp", "--format", "nvfp4"}, "ocp has no nvfp4"},
      {{"explain", "1", "--global-scale", "2"}, "--global-scale is for nvfp4"},
      {{"explain", "1", "--global-scale", "-2", "--format", "nvfp4"}, "above 0"},
      {{"explain", "1", "--seed", "-1"}, "--seed got"},
      {{"explain", "1", "abc"}, "'abc'"},
      {{"explain", "1e39"}, "beyond the largest FP32"},
  };
  for (const Mistake& mistake : mistakes) {
    const Outcome outcome = microscale(mistake.arguments);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(outcome.err.rfind("microscale", 0), 0u) << outcome.err;
    EXPECT_NE(outcome.err.find(mistake.says), std::string::npos)
        << outcome.err << "wanted " << mistake.says;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
}

TEST(Usage, a_name_near_nothing_gets_no_suggestion) {
  EXPECT_EQ(microscale({"explain", "1", "--format", "posit"}).err.find("did you mean"),
            std::string::npos);
}

TEST(Json, an_error_is_one_object_on_standard_output_too) {
  const Outcome outcome = microscale({"explain", "1", "--json", "--format", "nvfp5"});
  EXPECT_EQ(outcome.code, 2);
  const auto error = nlohmann::json::parse(outcome.out)["error"];
  EXPECT_EQ(error["command"], "explain");
  EXPECT_EQ(error["code"], "invalid_argument");
  EXPECT_EQ(error["exit_code"], 2);
  EXPECT_EQ("microscale explain: " + error["message"].get<std::string>() + "\n", outcome.err);
}

TEST(Json, an_error_that_quotes_broken_utf8_is_still_valid) {
  const Outcome outcome = microscale({"explain", "\xff\x1b[31m", "--json"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NO_THROW({ const auto json = nlohmann::json::parse(outcome.out); });
  EXPECT_EQ(outcome.err.find('\x1b'), std::string::npos);
}

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
