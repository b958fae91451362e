#include "emulator/ptx/calls.hpp"

#include <gtest/gtest.h>

#include "emulator/ptx/parse_text.hpp"

namespace microscale::emulator::ptx {
namespace {

TEST(PtxCalls, through_a_register_reach_functions_of_the_same_sizes) {
  const Kernel k = parse_kernel(
      ".reg .b64 f; { .param .b32 a; .param .b64 b; .param .b32 r; call (r), f, (a, b), proto; "
      "call (r), same, (a, b); call f; }",
      ".func (.param .b32 r) same(.param .f32 a, .param .u64 b) { ret; }\n"
      ".func (.param .b32 r) swapped(.param .u64 b, .param .f32 a) { ret; }\n"
      ".func (.param .b32 r) fewer(.param .b32 a) { ret; }\n"
      ".func silent(.param .b32 a, .param .b64 b) { ret; }\n"
      ".func (.param .b32 r) declared(.param .b32 a, .param .b64 b);\n"
      ".func nothing() { ret; }\n");
  ASSERT_EQ(k.function.code.size(), 3u);
  EXPECT_TRUE(is_indirect(k[0]));
  EXPECT_FALSE(is_indirect(k[1]));
  const auto reached = [&](const Instruction& call) {
    std::string names;
    for (const Function& each : k.module.functions())
      if (may_call(k.function, call, each)) names += std::string(each.name) + " ";
    return names;
  };
  EXPECT_EQ(reached(k[0]), "same ");
  EXPECT_EQ(reached(k[2]), "nothing ");
}

}  // namespace
}  // namespace microscale::emulator::ptx
