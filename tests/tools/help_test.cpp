// The text of --help on terminals of any width.
#include <gtest/gtest.h>

#include "report/terminal.hpp"
#include "tools/subprocess.hpp"

namespace microscale::testing {
namespace {

TEST(Help, fits_the_terminal) {
  for (const unsigned short columns : {40, 64, 80, 132})
    for (const char* command : {"quantize", "explain", "compare"})
      for (const std::string& line :
           lines_of(microscale_on_terminal({command, "--help"}, columns).out))
        EXPECT_LE(display_width(line), columns) << command << ": " << line;
}

TEST(Help, loses_no_word_to_wrapping) {
  const auto words = [](const std::string& text) {
    std::string kept;
    for (const char c : text)
      if (c != ' ' && c != '\n') kept += c;
    return kept;
  };
  EXPECT_EQ(words(microscale_on_terminal({"quantize", "--help"}, 44).out),
            words(microscale_on_terminal({"quantize", "--help"}, 500).out));
}

TEST(Help, goes_on_in_the_column_of_the_description) {
  EXPECT_NE(microscale({"quantize", "--help"}).out.find("\n                          options\n"),
            std::string::npos);
}

}  // namespace
}  // namespace microscale::testing
