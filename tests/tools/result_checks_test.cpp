// ptx run --check, --print, --symbol and --exit-code: what a launch left.
#include <gtest/gtest.h>

#include "tools/ptx_files.hpp"
#include "tools/subprocess.hpp"

namespace microscale::testing {
namespace {

// y[i] = 2 * i + i, by the kernel of ptx_files.hpp.
std::vector<std::string> affine(const Scratch& scratch, std::vector<std::string> more) {
  std::vector<std::string> words = {"ptx",
                                    "run",
                                    scratch.write("k.ptx", affine_ptx),
                                    "--block",
                                    "32",
                                    "--arg",
                                    "x=f32[32]:iota",
                                    "--arg",
                                    "2",
                                    "--arg",
                                    "y=f32[32]"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(ResultChecks, compare_with_a_file_and_print_the_first_elements) {
  const Scratch scratch;
  const std::string file = scratch.file("y.npy");
  ASSERT_EQ(microscale(affine(scratch, {"--out", "y=" + file})).code, 0);
  const Outcome same = microscale(affine(scratch, {"--check", "y=" + file, "--print", "y:3"}));
  EXPECT_EQ(same.code, 0) << same.out;
  EXPECT_EQ(same.out, "y: 0 3 6 ...\n");
  const Outcome other = microscale(affine(scratch, {"--check", "x=" + file + ":1e-5"}));
  EXPECT_EQ(other.code, 1);
  EXPECT_EQ(other.out, "x: 31 of 32 elements are not those of " + file +
                           " within 1e-05, the first at 1: 1, there 3; the farthest by 62\n");
  EXPECT_EQ(microscale(affine(scratch, {"--check", "x=" + file + ":0.1"})).code, 1);
  EXPECT_EQ(microscale(affine(scratch, {"--check", "x=" + file + ":100"})).code, 0);
  EXPECT_EQ(microscale(affine(scratch, {"--check", "x=" + file, "--exit-code", "0"})).code, 0);
  EXPECT_EQ(microscale(affine(scratch, {"--check", "x=" + file, "--exit-code", "42"})).code, 42);
}

TEST(ResultChecks, refuse_words_that_name_nothing) {
  const Scratch scratch;
  const std::pair<std::vector<std::string>, std::string> mistakes[] = {
      {{"--check", "y"}, "it takes NAME=FILE.npy"},
      {{"--check", "y=y.npy:near"}, "'near' is no tolerance"},
      {{"--print", "y:x"}, "--print COUNT"},
      {{"--print", "z"}, "--print names 'z'"},
      {{"--print", "1"}, "that argument is a value"},
      {{"--symbol", "coef"}, "--symbol got 'coef'"},
      {{"--symbol", "coef=3"}, "a value needs its type"},
      {{"--symbol", "coef=f32:3"}, "no variable in global or constant memory is called"},
      {{"--exit-code", "300"}, "--exit-code"}};
  for (const auto& [words, says] : mistakes) {
    const Outcome outcome = microscale(affine(scratch, words));
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_NE(outcome.err.find(says), std::string::npos) << outcome.err;
  }
}

TEST(ResultChecks, fill_and_read_variables_of_the_module) {
  const Scratch scratch;
  const std::string file = scratch.write(
      "s.ptx",
      ".version 8.0\n.target sm_90a\n.address_size 64\n.const .align 4 .b8 _ZN3one4coefE[8];\n"
      ".global .align 4 .u32 counter;\n.visible .entry k() {\n.reg .b32 %r<3>;\n"
      "ld.const.u32 %r1, [_ZN3one4coefE+4];\nred.global.add.u32 [counter], %r1;\nret;\n}\n");
  const Outcome outcome =
      microscale({"ptx", "run", file, "--block", "32", "--symbol", "coef=u32[2]:ones", "--print",
                  "counter", "--print", "coef:2"});
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_EQ(outcome.out, "counter: 32\ncoef: 1 1\n");
  EXPECT_EQ(microscale({"ptx", "run", file, "--symbol", "coef=u32[3]:ones"}).code, 2);
}

}  // namespace
}  // namespace microscale::testing
