// ptx run --suppress: findings that are known.
#include <gtest/gtest.h>

#include "tools/ptx_files.hpp"
#include "tools/subprocess.hpp"

namespace microscale::testing {
namespace {

Outcome run_with(const Scratch& scratch, const std::string& lines) {
  return microscale({"ptx", "run", scratch.write("k.ptx", affine_ptx), "--block", "32", "--arg",
                     "f32[32]", "--arg", "f32:1", "--arg", "f32[32]", "--suppress",
                     scratch.write("known.txt", lines)});
}

TEST(Suppressions, let_findings_go_by_kind_and_place) {
  const Scratch scratch;
  for (const std::string lines :
       {"# known\n\nuninitialised-memory affine  # of the test\n", "* affine\n", "*"}) {
    const Outcome outcome = run_with(scratch, lines);
    EXPECT_EQ(outcome.code, 0) << lines << outcome.out;
    EXPECT_EQ(outcome.out, "");
    EXPECT_NE(outcome.err.find("1 findings suppressed"), std::string::npos) << outcome.err;
  }
  for (const std::string lines : {"race\n", "uninitialised-memory other.cu:3\n", ""})
    EXPECT_EQ(run_with(scratch, lines).code, 1) << lines;
}

TEST(Suppressions, refuse_a_kind_that_is_none) {
  const Scratch scratch;
  const Outcome outcome = run_with(scratch, "race\nraec k.cu\n");
  EXPECT_EQ(outcome.code, 3);
  EXPECT_NE(outcome.err.find("known.txt:2: no finding is of kind 'raec' (did you mean race?)"),
            std::string::npos)
      << outcome.err;
}

}  // namespace
}  // namespace microscale::testing
