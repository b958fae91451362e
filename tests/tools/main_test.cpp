// The command line as a whole: help, exit codes, what goes to which stream, misspelled names,
// closed and full outputs, terminals.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tools/subprocess.hpp"

namespace microscale::testing {
namespace {

const std::vector<std::string> commands = {"quantize",   "convert", "dequantize", "inspect",
                                           "verify",     "compare", "explain",    "ptx",
                                           "completion", "version"};

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

TEST(Help, tells_the_codes_that_errors_have) {
  const std::string text = microscale({"--help"}).out;
  EXPECT_NE(text.find("4 no such file"), std::string::npos) << text;
  EXPECT_EQ(microscale({"inspect", "no-such-model"}).code, 4);
  const Outcome unnamed = microscale({"quantize", "", "-o", "out", "--format", "nvfp4"});
  EXPECT_EQ(unnamed.code, 2);
  EXPECT_NE(unnamed.err.find("no model was named"), std::string::npos) << unnamed.err;
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

TEST(Environment, a_backend_of_nobody_is_refused_by_every_command) {
  for (const char* name : {"bogus", "emulator-bogus"}) {
    const Outcome outcome = microscale({"explain", "1"}, "", {{"MICROSCALE_BACKEND", name}});
    EXPECT_EQ(outcome.code, 2);
    EXPECT_NE(outcome.err.find(name), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find("emulator-sm90"), std::string::npos) << outcome.err;
  }
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

TEST(Main, what_runs_models_says_what_it_needs) {
  const std::vector<std::string> commands[] = {
      {"calibrate", "m"},
      {"evaluate", "m"},
      {"rotate", "m"},
      {"quantize", "m", "-o", "q", "--format", "nvfp4", "--calibrate", "sample"}};
  for (const std::vector<std::string>& words : commands) {
    const Outcome outcome = microscale(words);
    EXPECT_EQ(outcome.code, 2) << words[0];
    EXPECT_NE(outcome.err.find("pip install 'microscale[transformers]'"), std::string::npos)
        << outcome.err;
  }
}

}  // namespace
}  // namespace microscale::testing
