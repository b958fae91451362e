#include "profile/profile_of.hpp"

#include <gtest/gtest.h>

#include "emulator/run_ptx.hpp"

namespace microscale::emulator {
namespace {

TEST(Profile, joins_counts_with_the_text_of_their_instructions) {
  const std::string text =
      ".version 9.0\n.target sm_90a\n.address_size 64\n.file 1 \"k.cu\"\n"
      ".visible .entry k(.param .u64 k_param_0)\n{\n.reg .pred %p<2>;\n.reg .b32 %r<4>;\n.reg .f32 "
      "%f<4>;\n.reg .b64 %rd<4>;\n"
      ".loc 1 3 0\nld.param.u64 \t%rd1, [k_param_0];\nmov.u32 %r1, %tid.x;\n"
      ".loc 1 4 0\ncvt.rn.f32.u32 %f1, %r1;\nadd.f32 %f2, %f1, %f1;\nsetp.gt.u32 %p1, %r1, "
      "99;\n@%p1 bra $L1;\n"
      "mul.wide.u32 %rd2, %r1, 4;\nadd.s64 %rd3, %rd1, %rd2;\nst.global.f32 [%rd3], "
      "%f2;\n$L1:\nret;\n}\n";
  LaunchRequest request;
  request.block = {64};
  request.options.statistics = true;
  testing::Ran ran = testing::launch_words(text, std::vector<std::uint32_t>(64), request);
  const KernelProfile profile = profile_of(text, "k", std::move(ran.report));
  ASSERT_EQ(profile.instructions.size(), 11u);
  const auto& code = profile.instructions;
  EXPECT_EQ(code[0].text, "ld.param.u64 %rd1, [param_0];");
  EXPECT_EQ(code[0].which, InstructionClass::other_memory);
  EXPECT_EQ(code[1].specials, std::vector<std::string>{"%tid.x"});
  EXPECT_EQ(code[1].line, 3u);
  EXPECT_EQ(code[2].which, InstructionClass::convert);
  EXPECT_EQ(code[3].which, InstructionClass::floating);
  EXPECT_EQ(code[4].which, InstructionClass::compare);
  EXPECT_EQ(code[5].which, InstructionClass::control);
  EXPECT_EQ(code[5].count.lanes, 0u);
  EXPECT_EQ(code[6].which, InstructionClass::integer);
  EXPECT_EQ(code[8].which, InstructionClass::store_global);
  EXPECT_TRUE(code[8].stores);
  EXPECT_EQ(code[8].line, 4u);
  EXPECT_EQ(code[8].count.sectors, 8u);
  EXPECT_EQ(code[8].count.sample.lanes, ~0u);
  EXPECT_EQ(code[9].label, "$L1");
  EXPECT_TRUE(code[10].implied);
  EXPECT_EQ(profile.files[0].name, "k.cu");
}

}  // namespace
}  // namespace microscale::emulator
