// A launch as words: names of kernels, shapes, outputs, options.
#include <gtest/gtest.h>

#include "tools/ptx_files.hpp"
#include "tools/subprocess.hpp"

namespace microscale::testing {
namespace {

Outcome launched(const std::vector<std::string>& more) {
  std::vector<std::string> words = {"ptx", "run",
                                    std::string(MICROSCALE_TEST_DATA) + "/tools/transpose.ptx"};
  words.insert(words.end(), more.begin(), more.end());
  return microscale(words);
}

TEST(PtxLaunch, finds_a_kernel_by_a_part_of_its_name) {
  EXPECT_NE(launched({"--kernel", "tiled"})
                .err.find("several kernels are called; choose one of levels::tiled<32, 1024>"),
            std::string::npos);
  EXPECT_NE(launched({"--kernel", "absent"})
                .err.find("no kernel here is called; choose one of levels::naive(levels::Args)"),
            std::string::npos);
  EXPECT_NE(launched({"--kernel", "naive"})
                .err.find("0 bytes of arguments; the kernel's parameters take 48"),
            std::string::npos);
  EXPECT_EQ(microscale(transpose_words("run", "tiled<33")).code, 0);
}

TEST(PtxLaunch, refuses_words_that_make_no_launch) {
  const std::pair<std::vector<std::string>, std::string> mistakes[] = {
      {{"--grid", "1,2,3,4"}, "--grid got '1,2,3,4'; it takes X, X,Y or X,Y,Z"},
      {{"--block", "x"}, "--block got 'x'"},
      {{"--schedule", "revers"}, "did you mean reverse?"},
      {{"--completion", "never"}, "choose one of eager, latest, random"},
      {{"--budget", "0"}, "--budget"},
      {{"--out", "y"}, "it takes NAME=FILE.npy"},
      {{"--arg", "u32:1", "--out", "0=a.npy"}, "that argument is a value, not a buffer"},
      {{"--out", "y=a.npy"}, "--out names 'y'"},
      {{"--kernel", "naive", "--block", "2048"}, "a block of"}};
  for (const auto& [words, says] : mistakes) {
    const Outcome outcome = launched(words);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_NE(outcome.err.find(says), std::string::npos) << outcome.err;
  }
}

}  // namespace
}  // namespace microscale::testing
