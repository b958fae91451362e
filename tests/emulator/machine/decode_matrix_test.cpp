// mma, ldmatrix and stmatrix that the decoder takes, and those it refuses, with the reason.
#include <gtest/gtest.h>

#include "microscale/emulator.hpp"
#include "microscale/error.hpp"

namespace microscale::testing {
namespace {

/// "" if kernel k of this instruction decodes; else what was said.
std::string refusal(const std::string& instruction, const std::string& target = "sm_120a") {
  const std::string text =
      ".version 9.0\n.target " + target +
      "\n.address_size 64\n.visible .entry k()\n{\n.reg .b32 %r<12>; .reg .b64 %rd<2>; .reg .b16 "
      "%rs<4>;\nmov.u32 %r0, 0; mov.u64 %rd0, 0; mov.u16 %rs0, 0;\n" +
      instruction + ";\nret;\n}\n";
  try {
    emulator::Memory memory;
    emulator::Module module(memory, text);
    module.info("k");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

const std::string mx8 =
    "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e2m1.e2m1.f32."
    "ue8m0 ";
const std::string d = "{%r4, %r5, %r6, %r7}, ", a = "{%r0, %r0, %r0, %r0}, ", b = "{%r0, %r0}, ",
                  c = "{%r0, %r0, %r0, %r0}";

TEST(DecodeMatrix, takes_what_exists) {
  EXPECT_EQ(refusal(mx8 + d + a + b + c + ", %r0, {0, 0}, %r0, {%rs0, %rs0}"), "");
  EXPECT_EQ(refusal("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 " + d + a + b + c), "");
  EXPECT_EQ(refusal("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%r4, %r5}, " + a + b +
                        "{%r0, %r0}",
                    "sm_90a"),
            "");
  EXPECT_EQ(refusal("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r4, %r5, %r6, %r7}, [%r0]"),
            "");
  EXPECT_EQ(refusal("ldmatrix.sync.aligned.m8n8.x1.b16 {%r4}, [%rd0+16]"), "");
  EXPECT_EQ(refusal("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%r0], {%r0, %r0}"), "");
  EXPECT_EQ(refusal("movmatrix.sync.aligned.m8n8.trans.b16 %r4, %r0"), "");
}

TEST(DecodeMatrix, refuses_with_the_reason) {
  const auto refused = [](const std::string& instruction, const std::string& part) {
    const std::string said = refusal(instruction);
    EXPECT_NE(said.find(part), std::string::npos) << instruction << "\n" << said;
    EXPECT_NE(said.find("line 8"), std::string::npos) << said;
  };
  refused(mx8 + d + "{%r0, %r0}, " + b + c + ", %r0, {0, 0}, %r0, {0, 0}", "");  // two A registers
  refused(mx8 + d + a + b + c + ", %r0, %r0", "");                               // no selectors
  refused("mma.sync.aligned.m16n8k16.row.col.f32.f16.bf16.f32 " + d + a + b + c, "");
  refused("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r4, %r5}, [%r0]", "");
  refused("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r0], {%r0, %r0}", "");
  refused("movmatrix.sync.aligned.m8n8.b16 %r4, %r0", "");
}

TEST(DecodeMatrix, block_scales_are_for_their_targets) {
  const std::string instruction = mx8 + d + a + b + c + ", %r0, {0, 0}, %r0, {0, 0}";
  EXPECT_NE(refusal(instruction, "sm_90a"), "");
  EXPECT_NE(refusal(instruction, "sm_100a"), "");
  EXPECT_EQ(refusal(instruction, "sm_121a"), "");
}

}  // namespace
}  // namespace microscale::testing
