// What ptx run says of findings: those of one cause together, in CUDA's words, with a cure.
#include <gtest/gtest.h>

#include "support/paths.hpp"
#include "tools/subprocess.hpp"

namespace microscale::testing {
namespace {

TEST(FindingText, says_a_cause_once_with_its_cure) {
  const Outcome outcome =
      microscale({"ptx", "run", microscale::testing::test_data() + "/emulator/bugs_found/bugs.ptx",
                  "--kernel", "softmax_row<false>", "--block", "128", "--arg", "f32[128]:ones",
                  "--arg", "f32[128]", "--arg", "128"});
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_EQ(outcome.out.rfind("race: kernel ", 0), 0u) << outcome.out;
  const std::size_t cuda = outcome.out.find(
      "\n  in CUDA: two threads of a block use the same "
      "__shared__ element");
  const std::size_t cure = outcome.out.find("\n  cure: put __syncthreads()");
  EXPECT_NE(cuda, std::string::npos) << outcome.out;
  EXPECT_GT(cure, cuda);
  EXPECT_EQ(outcome.out.find("\n  cure:", cure + 1), std::string::npos) << outcome.out;
}

}  // namespace
}  // namespace microscale::testing
